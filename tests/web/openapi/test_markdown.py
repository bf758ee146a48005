"""The little Markdown: what it knows, and that nothing gets through it."""

from __future__ import annotations

import pytest

from payd.web.openapi.markdown import html_of, inline


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("One\ntwo\n\nthree", "<p>One two</p><p>three</p>"),
        ("`a < b` and **so**", "<p><code>a &lt; b</code> and <strong>so</strong></p>"),
        ("* a\n  b\n* `c`", "<ul><li>a b</li><li><code>c</code></li></ul>"),
        ('```json\n{"a": 1}\n```', "<pre><code>{&#34;a&#34;: 1}</code></pre>"),
        ("`**not bold**`", "<p><code>**not bold**</code></p>"),
        ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
    ],
)
def test_text_becomes_html(text: str, html: str) -> None:
    assert str(html_of(text)) == html


def test_a_line_has_no_paragraph() -> None:
    assert str(inline("a `b`")) == "a <code>b</code>"
