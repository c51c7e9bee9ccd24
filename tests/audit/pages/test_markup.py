"""Text of strangers becomes HTML: nothing in it may be obeyed, and nothing may hide."""

from __future__ import annotations

import html
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from muster.webhook.pages.html_parts import element, joined, visible


class Parsed(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.text = [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@given(st.text(), st.text())
def test_whatever_a_text_holds_it_stays_text(child, attribute):
    parsed = Parsed(element("p", child, title=attribute))
    assert parsed.tags == [("p", {"title": visible(attribute)})]
    assert parsed.text == visible(child)


def test_elements_are_nested_and_lists_are_flattened():
    made = element("ul", [element("li", each) for each in ("a", "<b>")], None)
    assert made == "<ul><li>a</li><li>&lt;b&gt;</li></ul>"


def test_attributes_of_python_become_those_of_html():
    made = element("input", class_="x", aria_label="y", selected=True, disabled=False, value=None)
    assert made == '<input class="x" aria-label="y" selected>'


def test_markup_is_not_escaped_twice_and_text_that_looks_like_it_is():
    made = element("b", "x")
    assert joined([made, str(made)]) == f"<b>x</b>{html.escape('<b>x</b>')}"


def test_what_cannot_be_seen_is_shown():
    assert visible("a\u202eb\x1b[31m\u200bc\nd\te") == "a\\u202eb\\x1b[31m\\u200bc\nd\te"
