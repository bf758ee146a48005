"""What an attempt that failed is called, and what to do about it: one line for each common failure.

Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from typing import Final

from payd.core.endpoint import RESPONSE_DEADLINE_S
from payd.core.fault import ACCEPTED, FORGED, INJECTED

_UNAUTHENTIC: Final = (
    "Does your receiver verify the raw bytes of the body with this endpoint's secret?"
    " `payd webhook verify` explains."
)
_MOVED: Final = (
    "Redirects are not followed; often the URL misses its trailing slash or https. Set the final URL."
)
_REFUSED: Final = "Your receiver refused the request; its own log says why. Only a 2xx counts."
_AS_IT_SHOULD: Final = "Your receiver refused what was forged, as it should. The next attempt is a real one."
_OUTAGE: Final = "Your receiver is down or overloaded, or the proxy before it is; their logs say which."

WORDS: Final = {
    "blocked_address": "an address that payd may not call",
    "connection_refused": "the connection was refused",
    "connection_reset": "the connection was closed before an answer",
    "dns_error": "its name does not resolve",
    "forgery_accepted": "it took what it should refuse",
    "http_status": "its status is not a 2xx",
    "injected_fault": "a fault that you injected",
    "interrupted": "the attempt was interrupted",
    "network_unreachable": "its network cannot be reached",
    "protocol_error": "the answer is not HTTP/1.1",
    "proxy_error": "payd's own proxy did not let it through",
    "redirect": "a redirect",
    "system_error": "payd's own machine made no connection",
    "timeout_connect": f"no connection within {RESPONSE_DEADLINE_S} s",
    "timeout_response": f"no answer within {RESPONSE_DEADLINE_S} s",
    "tls_error": "TLS failed",
}
"""What happened, by the class of what went wrong on the way."""

BY_CLASS: Final = {
    "blocked_address": (
        "The host is, or resolves to, a private or special address. Set a public URL, or open its network"
        " with allow_networks in payd.toml."
    ),
    "connection_refused": "Is your receiver running, and does it listen on this port?",
    "connection_reset": "Does your receiver speak HTTP there, and did it crash?",
    "dns_error": "Is the host spelled right, and does its name resolve from payd's machine?",
    "forgery_accepted": (
        "Your receiver took what was forged on purpose, as it would from anybody. Have it verify signature"
        " and time, and answer 400."
    ),
    "http_status": _REFUSED,
    "injected_fault": "This was done on purpose, by a fault of test mode; the next attempt is a real one.",
    "interrupted": (
        "Its receiver may have got it all the same. It is not made again; replay-missing sends the event to a"
        " new endpoint."
    ),
    "network_unreachable": "payd's machine has no route there. Is it online, and over IPv4 or IPv6 alike?",
    "protocol_error": "Is this your receiver's port, and is it http or https?",
    "proxy_error": "See proxy in [webhooks] of payd.toml; the receiver knows nothing of it.",
    "redirect": _MOVED,
    "system_error": (
        "Is payd out of files or memory, or does a firewall of its own machine forbid it? The receiver knows"
        " nothing of it."
    ),
    "timeout_connect": "Is there a firewall between, or is the port wrong?",
    "timeout_response": "Answer at once, and do the work afterwards.",
    "tls_error": (
        "Is its certificate valid for this host, and complete? For a private authority set ca_file in"
        " payd.toml; for a port of plain HTTP an http:// URL."
    ),
}
"""What to do, by the same class."""

BY_STATUS: Final = {
    **dict.fromkeys((301, 302, 303, 307, 308), _MOVED),
    **dict.fromkeys((400, 401), _UNAUTHENTIC),
    403: "A firewall, or protection against CSRF? Let this path through; the signature protects it.",
    404: "Nothing is served at this path. Is the URL right, and is your receiver deployed?",
    405: "Deliveries are POST requests. Does this path take POST?",
    408: "Your receiver gave up reading the request. Is a proxy before it too slow?",
    410: "payd goes on trying. If the endpoint is gone for good, delete it, or pause it until it is back.",
    411: "Deliveries have a Content-Length. Does a proxy drop it?",
    413: "Your receiver refuses a body of this size. Allow at least 64 KiB.",
    415: "Deliveries are application/json. Does your receiver expect a form?",
    422: "Your receiver did not accept the content. Does it know this event type?",
    429: "Your receiver limits the rate; Retry-After is listened to. Let payd through, or answer and queue.",
    500: "Your receiver crashed; its own log says where.",
    **dict.fromkeys((502, 503, 504), _OUTAGE),
}
"""What to do, by the status of the answer."""

_REDIRECT: Final = range(300, 400)
_CLIENT: Final = range(400, 500)
_SERVER: Final = range(500, 600)


def words_for(error_class: str) -> str:
    """What went wrong, in a few words that follow a colon, such as `no answer within 15 s`."""
    return WORDS.get(error_class, error_class.replace("_", " "))


def advice(status: int | None, error_class: str | None, fault: str | None = None) -> str | None:
    """What to do about an attempt that ended so; None when it succeeded, or when there is nothing to say.

    Args:
        status: Of the answer; None when there was none.
        error_class: As in the attempt log: of `net.http.Reply`, or redirect, http_status, interrupted.
        fault: What was done to the attempt on purpose: a receiver that refused a forgery did what it should.
    """
    if fault is not None and error_class not in (ACCEPTED, INJECTED):
        return _AS_IT_SHOULD if fault in FORGED and status in _CLIENT else None
    if status is None or error_class == ACCEPTED:
        return BY_CLASS.get(error_class or "")
    if status in BY_STATUS:
        return BY_STATUS[status]
    if status in _REDIRECT:
        return _MOVED
    if status in _CLIENT:
        return _REFUSED
    return BY_STATUS[500] if status in _SERVER else BY_CLASS.get(error_class or "")
