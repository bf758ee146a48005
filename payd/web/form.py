"""Forms that pages post: who may have sent one, and what it says.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, urlsplit

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder

from payd.core.errors import Forbidden, InvalidParams, UnsupportedMediaType
from payd.web.call import Request

FORM_TYPE: Final = "application/x-www-form-urlencoded"
UPLOAD_TYPE: Final = "multipart/form-data"
# The longest form is a merchant's own; a few fields more are somebody else's, and harmless.
FORM_FIELDS_MAX: Final = 24


def check_same_origin(
    request: Request, base_url: str, page: str = "Open the page itself and use that."
) -> None:
    """Let a form through that our own page sent, or that no browser sent.

    A page without a referrer sends `Origin: null` with its own forms, so that `Sec-Fetch-Site` has to tell
    those from another site's; where a browser says neither, the form is refused.

    Raises:
        Forbidden: Another site sent it; `page` says what to do instead.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    host = request.headers.get("host")
    own = (None, "null", origin_of(base_url), f"http://{host}", f"https://{host}")
    unknown = origin == "null" and site is None
    if origin not in own or site not in (None, "same-origin", "none") or unknown:
        raise Forbidden(f"This form was sent from another site. {page}")


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, as a browser names an origin."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def read_form(request: Request, fields_max: int = FORM_FIELDS_MAX) -> dict[str, list[str]]:
    """What a form says, blank fields too.

    Raises:
        UnsupportedMediaType: It is no form.
        InvalidParams: It cannot be read, or has more than `fields_max` fields.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise UnsupportedMediaType(f"Send the form as {FORM_TYPE}.")
    try:
        return parse_qs(request.body.decode(), keep_blank_values=True, max_num_fields=fields_max)
    except ValueError:
        raise InvalidParams("The form cannot be read.") from None


def read_upload(request: Request, fields_max: int = FORM_FIELDS_MAX) -> tuple[dict[str, list[str]], bytes]:
    """What a form with a file says, and the file; empty where none was chosen.

    Raises:
        UnsupportedMediaType, InvalidParams: As `read_form`.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != UPLOAD_TYPE:
        return read_form(request, fields_max), b""
    form: dict[str, list[str]] = {}
    file = b""
    decoder = MultipartDecoder(options.get("boundary", "").encode(), max_parts=fields_max)
    try:
        decoder.receive_data(request.body)
        decoder.receive_data(None)
        part: Field | File | None = None
        said = b""
        while not isinstance(event := decoder.next_event(), Epilogue):
            if isinstance(event, Field | File):
                part, said = event, b""
            elif isinstance(event, Data):
                said += event.data
                if not event.more_data and isinstance(part, File):
                    file = said
                elif not event.more_data and part is not None:
                    form.setdefault(_name_of(part), []).append(said.decode())
    except (ValueError, RequestEntityTooLarge):
        raise InvalidParams("The form cannot be read.") from None
    return form, file


def _name_of(part: Field | File) -> str:
    """The name of a field; the decoder gives None where a part says none, whatever its types promise."""
    name: str | None = part.name
    if name is None:
        raise ValueError("a field without a name")
    return name
