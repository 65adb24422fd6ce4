"""PDF and DOCX files of a test's own making."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from xml.sax.saxutils import escape

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
FONT = "<< /Type /Font /Subtype"
SYSTEM = "<< /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def pdf_of(pages: Sequence[str], *, title: str = "") -> bytes:
    """A PDF whose pages hold these lines, in whatever script: a font of code points, with the map back to text."""
    kids = " ".join(f"{6 + 2 * at} 0 R" for at in range(len(pages)))
    chars = sorted({char for page in pages for char in page if char != "\n"})
    pairs = "\n".join(f"<{ord(char):04x}> <{ord(char):04x}>" for char in chars)
    cmap = f"/CIDInit /ProcSet findresource begin begincmap {len(chars)} beginbfchar\n{pairs}\nendbfchar endcmap end"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        f"{FONT} /Type0 /BaseFont /A /Encoding /Identity-H /DescendantFonts [4 0 R] /ToUnicode 5 0 R >>".encode(),
        f"{FONT} /CIDFontType2 /BaseFont /A /CIDSystemInfo {SYSTEM} >>".encode(),
        _stream(cmap.encode()),
    ]
    for at, page in enumerate(pages):
        lines = [f"<{''.join(f'{ord(char):04x}' for char in line)}> Tj 0 -14 Td" for line in page.split("\n")]
        told = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {7 + 2 * at} 0 R "
        objects.append(f"{told}/Resources << /Font << /F 3 0 R >> >> >>".encode())
        objects.append(_stream(f"BT /F 12 Tf 40 740 Td {' '.join(lines)} ET".encode()))
    objects.append(f"<< /Title ({title}) >>".encode())
    out, places = io.BytesIO(b"%PDF-1.7\n"), list[int]()
    out.seek(0, io.SEEK_END)
    for number, content in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n".encode() + content + b"\nendobj\n")
    start = out.tell()
    rows = "".join(f"{place:010d} 00000 n \n" for place in places)
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}".encode())
    out.write(f"trailer << /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n".encode())
    out.write(f"startxref\n{start}\n%%EOF\n".encode())
    return out.getvalue()


def _stream(content: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content)


def docx_of(paragraphs: Sequence[tuple[str, str]], *, parts: dict[str, bytes] | None = None) -> bytes:
    """A DOCX of paragraphs, each a style's name ("" for none, "Heading 1") and its text. parts: more of them."""
    styles = sorted({style for style, _ in paragraphs if style})
    named = "".join(
        f'<w:style w:type="paragraph" w:styleId="s{at}"><w:name w:val="{style}"/></w:style>'
        for at, style in enumerate(styles)
    )
    body = "".join(
        "<w:p>"
        + (f'<w:pPr><w:pStyle w:val="s{styles.index(style)}"/></w:pPr>' if style else "")
        + f'<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    own = {
        "[Content_Types].xml": f'{head}<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" '
        'ContentType="application/xml"/></Types>',
        "_rels/.rels": f'{head}<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'{head}<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "word/styles.xml": f"{head}<w:styles {WORD}>{named}</w:styles>",
        "word/document.xml": f"{head}<w:document {WORD}><w:body>{body}</w:body></w:document>",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {**{name: text.encode() for name, text in own.items()}, **(parts or {})}.items():
            file.writestr(name, content)
    return packed.getvalue()
