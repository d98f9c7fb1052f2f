"""What axe-core says of a page, where it is asked about the contrast of each look once and not of each word."""

from __future__ import annotations

from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Page

MARK_LOOKS = """() => {
  const STYLES = ["color", "backgroundColor", "backgroundImage", "fontSize", "fontWeight", "opacity", "textShadow",
                  "filter", "mixBlendMode", "position", "clip", "clipPath"];
  const known = new Map([[null, ""]]), numbers = new Map();
  const numberOf = (text) => numbers.get(text) ?? numbers.set(text, numbers.size).get(text);
  const lookOf = (element) => {
    if (!known.has(element)) {
      const style = getComputedStyle(element);
      const own = STYLES.map((name) => style[name]).join("|");
      known.set(element, numberOf(`${lookOf(element.parentElement)} ${own}`));
    }
    return known.get(element);
  };
  const seen = new Set();
  for (const element of document.body.querySelectorAll("*")) {
    delete element.dataset.look;
    delete element.dataset.first;
    const texts = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
    const text = texts.map((node) => node.data).join("").trim();
    const isControl = element.matches("input, select, textarea, button");
    if (!element.checkVisibility() || !(text || isControl)) continue;
    const isWord = /[\\p{L}\\p{N}]{2}/u.test(text);  // what is shorter is not judged
    const look = numberOf([element.tagName, lookOf(element), isWord, element.matches(":disabled")].join());
    element.dataset.look = look;
    if (isControl || !seen.has(look)) element.dataset.first = "";
    seen.add(look);
  }
}"""
"""Marks texts and controls with what they look like, up to the root of the page; controls, and the first of each look."""

JUDGE = """async (chosen) => {
  const look = async (selector, chosen) => {
    axe.configure({ rules: [{ id: "color-contrast", selector }] });
    return axe.run({ resultTypes: ["violations", "incomplete"], elementRef: true, ...chosen });
  };
  const { violations, incomplete } = await look("[data-first]", chosen);
  const unjudged = incomplete.find((rule) => rule.id === "color-contrast")?.nodes ?? [];
  if (unjudged.length) {
    const alike = unjudged.map(({ element }) => `[data-look="${element.dataset.look}"]`).join();
    violations.push(...(await look(alike, { runOnly: ["color-contrast"] })).violations);
  }
  return violations.map((rule) => [rule.id, rule.nodes.slice(0, 3).map((node) => node.html.slice(0, 120))]);
}"""
"""Where axe-core cannot tell what lies behind the first of a look, it is asked about the others."""


async def faults(page: Page, *rules: str) -> list[tuple[str, list[str]]]:
    """Each rule that the page breaks, of these or of all, with the first places where."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE_SCRIPT)
    await page.evaluate(MARK_LOOKS)
    return await page.evaluate(JUDGE, {"runOnly": list(rules)} if rules else {})
