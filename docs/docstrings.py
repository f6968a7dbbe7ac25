"""Docstrings as the house writes them, made ready for napoleon: an entry's text may begin on the line of its name."""

from __future__ import annotations

import re

SECTIONS = ("Parameters", "Attributes", "Raises")
_FEW = 5  # a type is a few words; more is a sentence


def ready(lines: list[str]) -> tuple[list[str], list[str]]:
    """The lines of a docstring for napoleon, and its section Returns as a field for :func:`with_returns`."""
    rest, field = _split(lines)
    return [_escaped(line) for line in _entries(rest)], [_escaped(line) for line in field]


def with_returns(lines: list[str], field: list[str]) -> list[str]:
    """The lines that napoleon made, with the field in front of what is raised, referred to and shown."""
    if not field:
        return lines
    later = (k for k, line in enumerate(lines) if line.startswith((":raises", ".. rubric::", ".. seealso::")))
    at = next(later, len(lines))
    return [*lines[:at], "", *field, "", *lines[at:]]


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    """What stands in the section Returns is a sentence, or a list of names, more often than a type."""
    starts = [k for k in range(len(lines) - 1) if lines[k] == "Returns" and re.fullmatch(r"-{3,}", lines[k + 1])]
    if not starts:
        return lines, []
    start = end = starts[0]
    while end < len(lines) and lines[end].strip():
        end += 1
    entries: list[list[str]] = []
    for line in lines[start + 2 : end]:
        if not line.startswith(" ") or not entries:
            entries.append([])
        entries[-1].append(line.strip())
    texts = []
    for first, *more in entries:
        head = first.replace(" : ", ": ", 1)
        ends = head[-1] in ".,;:" or " : " in first or not more or not more[0][0].isupper()
        texts.append(" ".join([head if ends else head + ":", *more]))
    one = len(texts) == 1 or not all(" : " in first for first, *_ in entries)
    field = [f":returns: {' '.join(texts)}"] if one else [":returns:", *(f"   * {t}" for t in texts)]
    return [*lines[:start], *lines[end + 1 :]], field


def _entries(lines: list[str]) -> list[str]:
    """``name : a sentence`` as ``name`` with the sentence below it; types of a few words stay where they are."""
    out: list[str] = []
    section = ""
    for k, line in enumerate(lines):
        if re.fullmatch(r"-{3,}", line.strip()) and out:
            section = out[-1].strip()
        elif not line.strip() and k + 2 < len(lines) and re.fullmatch(r"-{3,}", lines[k + 2].strip()):
            section = ""
        head = re.fullmatch(r"(\s*)([\w*][\w*, `]*?) : (.+)", line)
        if section in SECTIONS and head:
            follows = k + 1 < len(lines) and lines[k + 1].startswith(head[1] + " ") and lines[k + 1].strip() != ""
            complete = follows and lines[k + 1].strip()[0].isupper()  # a sentence of its own describes what the head names
            if section == "Raises" or (not complete and (follows or len(head[3].split()) > _FEW)):
                out += [f"{head[1]}{head[2]}", f"{head[1]}    {head[3]}"]
                continue
        out.append(line)
    return out


def _escaped(line: str) -> str:
    """Asterisks stand for themselves, outside of literals, examples and doubled ones."""
    if line.lstrip().startswith((">>>", "...")) or "*" not in line:
        return line
    parts = re.split(r"(``.*?``)", line)
    parts[::2] = [re.sub(r"(?<![\\*])\*(?!\*)", r"\\*", p) for p in parts[::2]]
    return "".join(parts)
