"""Pages as a browser reads them: tags, text, and what they would load or run."""

import base64
import hashlib
import re
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "input", "hr"}


class Page(HTMLParser):
    """Tags with their attributes, the text in each, and whether all are closed in their order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.inside = [], [], {}
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.inside.setdefault(self.open[-1], []).append(data)

    def named(self, *names):
        return [attrs for tag, attrs in self.tags if tag in names]


def check_closed(text):
    """No request to anywhere, and no script or style but those that the policy has the hashes of."""
    page = Page(text)
    for tag, attrs in page.tags:
        assert not any(name.startswith("on") or name == "style" for name in attrs), (tag, attrs)
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            if name in attrs:
                assert attrs[name].startswith(("data:", "#")) or not re.match(r"\w+:|/", attrs[name]), attrs
    assert not page.named("iframe", "object", "embed", "form", "base")
    assert "url(" not in text and "@import" not in text
    (policy,) = [a["content"] for a in page.named("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; img-src data:;") and "unsafe" not in policy
    for tag in ("script", "style"):
        texts = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
        assert len(texts) == len(page.named(tag)) <= 1
        for inside in texts:
            digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
    return page
