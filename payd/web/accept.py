"""What a client likes, and how much: the headers `Accept`, `Accept-Language` and their like.

Source: RFC 9110, "12.4.2. Quality Values".
"""

from __future__ import annotations

from payd.web.call import JSON_TYPE, PROBLEM_TYPE


def weights(header: str) -> dict[str, float]:
    """What a header names, in lower case and in its order, with how much it is liked; 0 means not at all.

    What has a weight that is no number from 0 to 1 is left out.
    """
    liked: dict[str, float] = {}
    for item in header.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        given = [one.removeprefix("q=") for one in parameters if one.startswith("q=")]
        try:
            weight = float(given[0]) if given else 1.0
        except ValueError:
            continue
        if 0 <= weight <= 1:
            liked[name] = weight
    return liked


def wants_json(accept: str) -> bool:
    """Whether an `Accept` header names JSON, and likes it better than HTML."""
    return weights(accept).get(JSON_TYPE, 0.0) > 0 and not prefers_html(accept)


def prefers_html(accept: str) -> bool:
    """Whether an `Accept` header names HTML and does not like JSON better."""
    liked = weights(accept)
    return liked.get("text/html", 0.0) > 0 and liked["text/html"] >= liked.get(JSON_TYPE, 0.0)


def prefers_problem(accept: str) -> bool:
    """Whether an `Accept` header names problem details and likes no plain JSON better.

    Who names both alike takes JSON where all is well, and knows problems by their type. A wildcard names
    nothing: it is answered with plain JSON.
    """
    liked = weights(accept)
    ranges = (JSON_TYPE, "application/*", "*/*")
    plain = next((liked[one] for one in ranges if one in liked), 0.0)
    return liked.get(PROBLEM_TYPE, 0.0) > 0 and liked[PROBLEM_TYPE] >= plain
