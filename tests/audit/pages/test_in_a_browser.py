"""The pages in a real headless Chromium: what people see, with the keyboard alone, in both colour schemes.

`make test` installs the browser where it may (e2e/browsers.py); elsewhere these tests are skipped and say so.
"""

from __future__ import annotations

import contextlib

import pytest
import pytest_asyncio

from e2e import browsers as programs
from muster.audit import chain
from muster.webhook.pages.log_places import Shelf
from muster.webhook.pages.page_server import PageServer
from tests.support import browsers, trails

PROGRAM = programs.find()
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium here: as root, apt-get install chromium-headless-shell"),
]
HOSTILE = "<img src=x onerror='window.obeyed=1'><script>window.obeyed=1</script><svg onload='window.obeyed=1'>"

# Contrast of each text with what it stands on, by WCAG 2.2's formula; [text, ratio] of those below 4.5.
FAINT = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const channels = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([...c]) => c.slice(0, 3).map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = node => {
    for (; node; node = node.parentElement) {
      const colour = channels(getComputedStyle(node).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const out = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), owner = walker.currentNode.parentElement;
    if (!text || owner.closest('.hidden, .skip, option')) continue;
    const a = light(channels(getComputedStyle(owner).color)), b = light(ground(owner));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) out.push([text, ratio]);
  }
  return out;
})()"""
FOCUS = """(() => {
  const node = document.activeElement, style = getComputedStyle(node), box = node.getBoundingClientRect();
  return {
    what: node.tagName, text: (node.textContent || '').trim(), id: node.id,
    outlined: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2, left: box.left,
  };
})()"""
FIRST = "document.querySelector('.decisions a[href^=\"/record/\"]').getAttribute('href')"
JOBS = "[...document.querySelectorAll('.decisions td > a')].map(e => e.textContent)"
OVERFLOW = "document.scrollingElement.scrollWidth - window.innerWidth"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium(tmp_path_factory):
    async with browsers.browser(PROGRAM, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def url(tmp_path_factory, make_record, make_change, make_finding):
    """A site with a log of real decisions and, before them, a hostile one."""
    change = make_change(HOSTILE, HOSTILE, before=HOSTILE, after=[HOSTILE])
    hostile = make_record(
        uid="hostile",
        decision="denied",
        changes=[change],
        findings=[make_finding(HOSTILE, HOSTILE, HOSTILE)],
        object={"kind": HOSTILE, "namespace": HOSTILE, "name": HOSTILE},
        user={"username": HOSTILE},
    )
    log = tmp_path_factory.mktemp("logs") / "audit.log"
    link = chain.Chain()
    log.write_bytes(b"".join([link.seal(hostile), *trails.lines(trails.decisions(), link)]))
    site = PageServer(Shelf([log]))
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(site.close)
        yield f"http://127.0.0.1:{await site.open(0)}"


async def launched(page, url):
    """Open the record in which trl's launch was changed."""
    await page.open(f"{url}/?rule=trl/launch&job=trl-sft-two-nodes")
    await page.open(url + await page.ask(FIRST))


async def test_a_change_is_seen_on_the_first_screen_both_sides_beside_each_other(chromium, url):
    page = await chromium.page(1280, 800)
    await launched(page, url)
    before, after, reason = await page.ask(
        "['del', 'ins', '.reason'].map(each => document.querySelector(each).getBoundingClientRect().toJSON())"
    )
    assert before["top"] == after["top"]
    assert before["right"] <= after["left"]
    assert reason["bottom"] <= before["top"]
    assert after["bottom"] < 800
    assert await page.ask("document.querySelector('article').innerText.split('\\n')[0]") == "spec.trainer.command"


async def test_nothing_is_loaded_from_elsewhere_and_nothing_is_refused_by_the_policy(chromium, url):
    page = await chromium.page()
    await page.open(url)
    await launched(page, url)
    asked = [each for each in page.requests if each != "about:blank"]
    assert all(each.startswith(f"{url}/") for each in asked)
    assert {f"{url}/style.css"} <= set(asked)
    assert page.complaints == []
    assert await page.ask("getComputedStyle(document.querySelector('article')).borderTopLeftRadius") == "8px"


async def test_markup_in_a_record_is_shown_and_not_obeyed(chromium, url):
    page = await chromium.page()
    await page.open(f"{url}/?uid=hostile")
    assert HOSTILE in await page.ask("document.querySelector('.decisions').innerText")
    await page.open(url + await page.ask(FIRST))
    assert HOSTILE in await page.ask("document.querySelector('main').innerText")
    assert await page.ask("document.querySelectorAll('main img, main svg, script').length") == 0
    assert await page.ask("typeof window.obeyed") == "undefined"
    assert page.complaints == []


async def test_the_keyboard_alone_leads_from_the_filters_to_a_record(chromium, url):
    page = await chromium.page()
    await page.open(url)
    await page.press("Tab")
    focus = await page.ask(FOCUS)
    assert (focus["text"], focus["outlined"]) == ("Skip to content", True)
    assert focus["left"] >= 0
    await page.press("Enter")
    assert await page.ask("document.activeElement.id") == "main"
    await page.press("Tab")
    assert await page.ask("document.activeElement.id") == "job"
    await page.type("trl-sft-two-nodes")
    async with page.another():
        await page.press("Enter")
    assert await page.ask(JOBS) == ["trl-sft-two-nodes"]
    for _ in range(40):
        await page.press("Tab")
        focus = await page.ask(FOCUS)
        assert focus["outlined"], focus
        if focus["text"] == "TrainJob create, mutate":
            break
    async with page.another():
        await page.press("Enter")
    assert "/record/" in await page.ask("location.pathname")


async def test_every_link_and_control_is_reached_by_tab_in_the_order_of_the_page(chromium, url):
    page = await chromium.page()
    await launched(page, url)
    wanted = await page.ask("[...document.querySelectorAll('a, .scroll, summary')].map(e => e.textContent.trim())")
    reached = []
    for _ in wanted:
        await page.press("Tab")
        reached.append((await page.ask(FOCUS))["text"])
    assert reached == wanted


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_all_text_stands_out_in_both_colour_schemes(chromium, url, scheme):
    page = await chromium.page(scheme=scheme)
    for path in ("/", "/?uid=hostile", "/?decision=denied", "/?job=nobody", "/?since=never"):
        await page.open(url + path)
        assert await page.ask(FAINT) == []
    await launched(page, url)
    assert await page.ask(FAINT) == []
    dark = await page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    assert dark is (scheme == "dark")


async def test_a_screen_reader_is_told_tables_headings_and_names(chromium, url):
    page = await chromium.page()
    await launched(page, url)
    tree = await page.tree()
    for each in (
        ("main", ""),
        ("heading", "patched TrainJob team-a/trl-sft-two-nodes"),
        ("heading", "spec.trainer.command trl/launch"),
        ("group", "spec.trainer.command, before and after"),
        ("columnheader", "Before"),
        ("columnheader", "After"),
        ("deletion", ""),
        ("insertion", ""),
        ("navigation", "Onwards"),
    ):
        assert each in tree, each
    await page.open(url)
    tree = await page.tree()
    assert ("search", "Filter decisions") in tree
    assert ("table", "Admission decisions") in tree
    named = {role: {name for each, name in tree if each == role} for role in ("combobox", "textbox")}
    assert named["combobox"] >= {"Decision", "Kind", "One row for each"}
    assert named["textbox"] >= {"Job", "Namespace", "Rule", "Asked by", "Words in reasons"}


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
async def test_no_page_is_wider_than_its_window(chromium, url, width):
    page = await chromium.page(width, 700)
    for path in ("/", "/?uid=hostile", "/?view=decisions"):
        await page.open(url + path)
        assert await page.ask(OVERFLOW) <= 0
    await launched(page, url)
    assert await page.ask(OVERFLOW) <= 0


SEEN = """(query => [...document.querySelectorAll(query)].map(node => {
  const box = node.getBoundingClientRect();
  return node.checkVisibility({contentVisibilityAuto: true}) && box.width > 0 && box.left >= 0
    && box.right <= window.innerWidth;
}))"""


@pytest.mark.parametrize(("width", "is_open"), [(390, False), (1280, True)])
async def test_filters_are_folded_on_a_phone_and_open_where_there_is_room(chromium, url, width, is_open):
    page = await chromium.page(width, 844)
    for path in ("/", "/?namespace=team-a"):
        await page.open(url + path)
        assert set(await page.ask(f"{SEEN}('form input')")) == {is_open}
    if not is_open:
        assert "namespace team-a" in await page.ask("document.querySelector('.filters > summary').innerText")
        await page.ask("document.querySelector('.filters > summary').click()")
        assert set(await page.ask(f"{SEEN}('form input')")) == {True}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
async def test_what_was_written_instead_is_seen_without_scrolling_aside(chromium, url, width, scheme):
    page = await chromium.page(width, 844, scheme=scheme)
    await launched(page, url)
    assert set(await page.ask(f"{SEEN}('ins')")) == {True}
    assert set(await page.ask(f"{SEEN}('.sides th')")) == {True}
    assert await page.ask("[...document.querySelectorAll('.scroll')].every(e => e.scrollWidth <= e.clientWidth)")
