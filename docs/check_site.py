"""Look through the built site: whether every internal link, picture and script leads somewhere, nothing is fetched from
elsewhere, and every page of the reference has an example. Prints its counts.

python docs/check_site.py docs/_build/html
"""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ATTRIBUTES = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src"}
FETCHED = {"img", "script", "source", "link"}
FETCHES = re.compile(r"""(?:@import\s+|url\()\s*["']?(https?:)?//""")  # in style sheets
NAME, EXAMPLES = 'class="sig sig-object py"', ('class="gp"', "sphx-glr-thumbcontainer")
DOWNLOADED = {f"stalegrad.datasets.{name}.html" for name in ("a9a", "cifar10", "mnist")}
"""Names whose example would have to fetch data."""


class Page(HTMLParser):
    """What a page refers to, and the places in it that can be referred to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a tag leads and what it is called."""
        values = dict(attrs)
        self.places |= {value for name in ("id", "name") if (value := values.get(name))}
        if (attribute := ATTRIBUTES.get(tag)) and (target := values.get(attribute)):
            self.links.append((tag, target))


def broken(root: Path) -> tuple[list[str], dict[str, int]]:
    """What leads nowhere, what a reader without a network would miss, and how much was looked at."""
    pages = {path.resolve(): Page(path.read_text()) for path in root.rglob("*.html") if "_static" not in path.parts}
    found: list[str] = []
    looked_at = 0
    for path, page in pages.items():
        for tag, target in page.links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if tag in FETCHED and parts.scheme in {"http", "https"}:
                    found.append(f"{path.relative_to(root.resolve())} fetches {target}")
                continue
            looked_at += 1
            aim = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            aim = aim / "index.html" if aim.is_dir() else aim
            place = unquote(parts.fragment)
            if not aim.exists():
                found.append(f"{path.relative_to(root.resolve())} → {target}")
            elif place and aim in pages and place not in pages[aim].places:
                found.append(f"{path.relative_to(root.resolve())} → {target}: no such place")
    for path in root.rglob("*.css"):
        found += [f"{path.relative_to(root)} fetches {match[0]}" for match in FETCHES.finditer(path.read_text())]
    return found, {"pages": len(pages), "internal links": looked_at}


def without_example(root: Path) -> tuple[list[str], dict[str, int]]:
    """Pages of names that show no code that is run: neither a doctest nor a page of the gallery; and their number."""
    texts = {path.name: path.read_text() for path in (root / "reference").glob("*.html")}
    names = {name: text for name, text in texts.items() if NAME in text}
    missing = [name for name, text in names.items() if not any(example in text for example in EXAMPLES)]
    return sorted(set(missing) - DOWNLOADED), {"names in the reference": len(names)}


def counts(root: Path) -> dict[str, int]:
    """How much of the site was run when it was built."""
    by_page = json.loads((root / ".executed.json").read_text()).values()
    return {
        "blocks run on pages": sum(page["run"] for page in by_page),
        "pictures of pages": sum(page["figures"] for page in by_page),
        "job files, manifests and scripts read": sum(page["read"] for page in by_page),
        "examples in the gallery": len(list((root / "gallery").glob("*.html"))) - 1,
        "pages of the reference": len(list((root / "reference").glob("*.html"))),
    }


def main() -> int:
    """Print the counts and what is broken; 1 if anything is."""
    root = Path(sys.argv[1])
    found, looked_at = broken(root)
    missing, names = without_example(root)
    for name, number in (looked_at | counts(root) | names).items():
        print(f"{number:7,} {name}")
    for what, lines in {"broken": found, "names without an example": missing}.items():
        print(f"{len(lines):7,} {what}")
        for line in lines:
            print(f"        {line}")
    print(f"The site begins at {root / 'index.html'}")
    return bool(found or missing)


if __name__ == "__main__":
    sys.exit(main())
