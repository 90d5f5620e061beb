"""Reads a report as a browser's parser does: elements in order, and the text that is seen."""

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}
UNSEEN = {"script", "style", "title", "option"}


class Element:
    """An element with its attributes and all text below it."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag, self.attributes = tag, attributes
        self.text = ""


class Page(HTMLParser):
    """All elements in order of appearance, and the lines of seen text outside of tables' cells."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.seen: list[tuple[str, str]] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data
        tags = [element.tag for element in self.open]
        if data.strip() and not UNSEEN & set(tags):
            self.seen.append((tags[-1] if tags else "", " ".join(data.split())))

    def all(self, *tags: str) -> list[Element]:
        """Every element of these tags, in order."""
        return [element for element in self.elements if element.tag in tags]

    def texts(self, *tags: str) -> list[str]:
        """The text of each of them, blanks folded."""
        return [" ".join(element.text.split()) for element in self.all(*tags)]

    def with_class(self, name: str) -> list[str]:
        """The text of every element of a class."""
        found = [e for e in self.elements if name in e.attributes.get("class", "").split()]
        return [" ".join(element.text.split()) for element in found]


def without_plotly(source: str) -> str:
    """The page less its longest script, which is plotly.js."""
    scripts = re.findall(r"<script>.*?</script>", source, flags=re.DOTALL)
    return source.replace(max(scripts, key=len), "")
