"""Hooks of the documentation site: pages outside of docs/ and links to them, Mermaid without a CDN, and llms.txt."""

from __future__ import annotations

import importlib.util
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/RESULTS.md": "results.md",
    "benchmarks/autoscaling.md": "autoscaling-rules.md",
    "benchmarks/delivery.md": "delivery.md",
    "benchmarks/engine.md": "engine.md",
    "benchmarks/rollout.md": "rollout.md",
    "charts/triton/README.md": "charts/triton.md",
    "charts/worker/README.md": "charts/worker.md",
    "examples/README.md": "examples.md",
    "examples/packaged/README.md": "packaged.md",
}
"""Pages outside of docs/, which GitHub shows where they lie: path in the repository -> path in the site."""

_REPOSITORY_PATHS = {uri: path for path, uri in PAGES.items()}
_FENCE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)$)", re.DOTALL | re.MULTILINE)
_TESTED_FENCE = re.compile(r"^(```\w+) [\w-]+$", re.MULTILINE)
"""A fence whose second word names the test that runs it: the site's Markdown would not take it for a fence."""
_LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/, and Mermaid's script."""
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, "assets/mermaid.min.js", abs_src_path=str(mermaid())))
    return files


def on_env(_environment: object, config: MkDocsConfig, files: Files) -> None:
    """Add llms.txt (https://llmstxt.org): the title and address of each page, for programs that read documentation."""
    pages = [f"- [{page.title}]({page.url})" for file in files.documentation_pages() if (page := file.page) is not None]
    text = f"# {config.site_name}\n\n> {config.site_description}\n\n## Pages\n\n" + "\n".join(pages) + "\n"
    files.append(File.generated(config, "llms.txt", content=text))


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn links of the repository into links of the site, and keep only the language of a fence."""
    uri = page.file.src_uri
    path = _REPOSITORY_PATHS.get(uri, f"docs/{uri}")
    parts = _FENCE.split(_TESTED_FENCE.sub(r"\1", markdown))
    parts[::2] = [_LINK.sub(lambda match: _link(match, path, uri), part) for part in parts[::2]]
    return "".join(parts)


def mermaid() -> Path:
    """Return the script of Mermaid that the package mermaidx ships: mermaid.min.js of the npm package, unchanged."""
    found = importlib.util.find_spec("mermaidx")
    assert found and found.origin, "the package mermaidx is not installed"
    return Path(found.origin).parent / "assets" / "mermaid.js"


def _link(match: re.Match[str], path: str, uri: str) -> str:
    """Return a link to the page of the site; what the site does not have is named by its path in the repository."""
    text, target, anchor = match[1], match[2], match[3] or ""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    found = PAGES.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
    if found is None:
        return f"{text} (`{target}`)" if target not in text else text
    if (ROOT / target).is_dir():
        found += "/README.md"
    return f"[{text}]({posixpath.relpath(found, posixpath.dirname(uri) or '.')}{anchor})"
