"""Pairs as people keep them: TSV, CSV, TMX, JSON lines, or two line-aligned texts."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from transformer_lit.corpora.texts import (
    MAX_LINE,
    Pairs,
    damage,
    is_garbled,
    open_text,
    read_all,
    read_lines,
    require_sentences,
)

NAMED = "tmx", "json", "jsonl"  # JSON: an object on each line
COLUMNS = "source", "target"
UNREAD = "srt vtt po xlf xliff xml sgm xlsx xls ods docx pdf properties resx strings html".split()
LANGUAGE_NAMES = dict(
    name.split(":")
    for name in """english:en anglais:en englisch:en french:fr français:fr französisch:fr
    german:de deutsch:de allemand:de finnish:fi swedish:sv danish:da norwegian:no polish:pl
    czech:cs russian:ru ukrainian:uk romanian:ro hungarian:hu turkish:tr greek:el chinese:zh
    japanese:ja korean:ko arabic:ar hindi:hi vietnamese:vi indonesian:id catalan:ca hebrew:he
    spanish:es español:es italian:it italiano:it dutch:nl nederlands:nl portuguese:pt português:pt
    src:source text:source tgt:target translation:target quelle:source ziel:target
    eng:en fra:fr fre:fr deu:de ger:de spa:es ita:it nld:nl por:pt rus:ru""".split()
)
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
NO_TEXT = "bpt", "ept", "it", "note", "ph", "prop", "ut"  # elements of TMX: formatting, remarks
QUOTED = re.compile(r'"([^"]|"")*"')  # a cell as a table program writes one with quotes or commas


def names_of(paths: Iterable[Path]) -> str:
    "For a message."
    return " and ".join(map(str, paths))


def suffix_of(path: Path) -> str:
    "What a file's name ends in, but for .gz and .xz."
    return re.sub(r"\.(gz|xz)$", "", path.name.lower()).rpartition(".")[2]


def find_columns(names: Iterable[str], languages: Sequence[str]) -> list[str]:
    """The two of these names that a pair's texts have: the languages, with or without a country, or
    source and target. Empty if they aren't there."""
    names = sorted(names, key=len)[::-1]  # of source and source_lang the shorter is meant
    short = {
        part.strip(' "'): name
        for name in names
        for part in re.split("[-_(]", name.casefold())[::-1]
    }
    short = {LANGUAGE_NAMES.get(key, key): name for key, name in short.items()} | short
    for pair in languages, COLUMNS:
        if {*pair} <= {*short}:
            return [short[name] for name in pair]
    return []


# One file -----------------------------------------------------------------------------------------


def tmx_rows(content: bytes) -> Iterable[dict]:
    "The units of a translation memory, {language: text}. ValueError for entities of its own."
    if b"<!ENTITY" in content.replace(b"\0", b""):  # a few of them unpack to gigabytes; UTF-16, too
        raise ValueError("it declares entities")
    # names of encodings that the parser doesn't know are those of UTF-8
    content = re.sub(rb'(?i)\s(xmlns="[^"]*"|encoding="(utf8\w*|unicode)")', b"", content)
    for unit in ElementTree.fromstring(content).iter("tu"):
        row = {}
        for variant in unit.iter("tuv"):
            for element in variant.iter():
                element.text = None if element.tag in NO_TEXT else element.text
            language = variant.get(XML_LANGUAGE) or variant.get("lang", "")
            row[language] = " ".join("".join(variant.itertext()).split())
        yield row


def named_rows(path: Path, kind: str) -> list[dict[str, str]]:
    "The texts of each entry of a file, by name. ValueError if it isn't as its name says."
    with damage(path, "put a whole one in its place, or use .tsv"), open_text(path) as file:
        content = read_all(file, path)
    try:
        if kind == "tmx":
            return [*tmx_rows(content)]
        # as one text, for an error then names the line
        lines = filter(str.strip, content.decode("utf-8-sig").split("\n"))
        rows = json.loads("[%s]" % ",\n".join(lines))
        return [x if isinstance(x := row.get("translation"), dict) else row for row in rows]
    except (SyntaxError, ValueError, AttributeError, LookupError) as error:  # a row no object
        words = "TMX" if kind == "tmx" else "JSON with one object on each line"
        raise ValueError(f"{path} is no {words} ({error})") from None


def is_table_program(lines: Sequence[str]) -> bool:
    """Did a table program write these lines? All cells are quoted, or one has doubled quotes
    inside, or all with a comma are quoted, and none on several lines; a speaker's words are in
    quotes, too."""
    cells = [cell for line in lines for cell in line.split("\t")[:2]]
    quoted = [cell for cell in cells if QUOTED.fullmatch(cell)]
    return (
        len(quoted) == len(cells)
        or any('""' in cell[1:-1] for cell in quoted)
        or (
            sum("," in cell for cell in quoted) > 9
            and sum("," in cell or cell[:1] == '"' for cell in cells) == len(quoted)
        )
    )


def read_table(path: Path, is_csv: bool, languages: Sequence[str]) -> list[list[str]]:
    "The cells of a TSV or a CSV. ValueError for a quote that a CSV never closes."
    lines, delimiter = list(read_lines(path)), "\t"
    if all(is_garbled(line) or "\r" in line for line in lines[:9]):  # `require_sentences` names it
        return [[line, line] for line in lines]
    if is_csv:  # what parts the names of columns, or stands in the most lines
        marks = [m for m in "\t;,|" if find_columns(lines[0].split(m), languages)] or "\t;,|"
        delimiter = max(marks, key=lambda mark: sum(mark in line for line in lines))
    plain = [line.split("\t") for line in lines]
    if not (is_csv or is_table_program(lines)):
        return plain
    csv.field_size_limit(MAX_LINE)
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    try:
        table = list(reader)
    except csv.Error:
        if not is_csv:
            return plain
        raise ValueError(
            f"a cell that ends in line {reader.line_num} of {path} has a quote that isn't closed,"
            " or text behind the closing one: mend it, or call it .tsv if columns have tabs between"
        ) from None
    swallowed = any(re.search("(?s)\t.*\n|\n.*\t", cell) for row in table for cell in row)
    return plain if swallowed and not is_csv else table


def read_file(path: Path, languages: Sequence[str]) -> Pairs:
    """Two columns, by their names if there are any, else the first two. A row with more columns
    than most gets tabs, and cleaning counts it."""
    kind = suffix_of(path)
    if kind in NAMED:
        rows = named_rows(path, kind)
    else:
        table = read_table(path, kind == "csv", languages)
        header = table.pop(0) if table and find_columns(table[0], languages) else COLUMNS
        usual = max(2, Counter([*map(len, table), 2]).most_common(1)[0][0])
        rows = [
            dict(zip(header, [cell + "\t" * (len(row) > usual) for cell in row] + ["", ""]))
            for row in table
        ]
    names = dict.fromkeys(name for row in rows for name in row)
    if rows and not (chosen := find_columns(names, languages)):
        raise ValueError(f"{path} has {', '.join(names)}: name two of them, as --languages en-de")
    if {type(row.get(name)) for row in rows for name in chosen} & {list, dict}:
        raise ValueError(
            f"{path} has lists or objects as {' and '.join(chosen)}: write texts there"
        )
    pairs = [
        tuple(
            re.sub("[\ud800-\udfff]", "\ufffd", str(row.get(name) or ""))
            for name in find_columns(row, languages) or chosen
        )
        for row in rows
    ]
    require_sentences(pairs, str(path))
    return pairs


# One or two ---------------------------------------------------------------------------------------


def read_pairs(paths: Sequence[Path], languages: Sequence[str] = COLUMNS) -> Pairs:
    """The pairs of one file, or of two parallel texts, as they stand.

    Raises ValueError with one sentence if columns, sides or names don't fit, or if it is no text.
    """
    suffixes = [*map(suffix_of, paths)]
    if {*suffixes} & {*UNREAD}:
        raise ValueError(f"{names_of(paths)}: convert it to .tsv, .csv, .tmx or .jsonl first")
    if len(paths) == 1:
        return read_file(paths[0], languages)
    if {*suffixes} & {*languages} and suffixes != [*languages] and {*map(len, suffixes)} == {2}:
        raise ValueError(
            f"{names_of(paths)} don't end in {' and '.join(languages)}: name the files in the"
            " order of --languages"
        )
    sources, targets = ([*read_lines(path)] for path in paths)
    if len(sources) != len(targets):
        raise ValueError(
            f"{paths[0]} has {len(sources):,} lines and {paths[1]} {len(targets):,}: line by line"
            " they must say the same"
        )
    pairs = [*zip(sources, targets)]
    require_sentences(pairs, names_of(paths))
    return pairs
