"""The GPU check's table for people and its JSON for machines, from what the sections said."""

import json
import re

from . import sections


def number(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def table(header, rows):
    """Columns set flush: the first to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for row in cells:
        line = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(line).rstrip())
    return "\n".join(lines)


def speed_table(rows):
    header = ["kernel", "D", "mask", "tokens", "ms", "TFLOP/s", "% of cuDNN", "O rms/cuDNN", "O err", "LSE err", ""]
    figures = (("ms", 3), ("tflops", 1), ("percent_of_cudnn", 1), ("out_rms_of_cudnn", 2), ("out_error", 2), ("lse_error", 3))
    return table(header, [[row.get("kernel", ""), row.get("head_dim", ""), "causal" if row.get("causal") else "none",
                           row.get("tokens", ""), *(number(row.get(key), digits) for key, digits in figures),
                           "" if row.get("pass", True) else "WRONG"] for row in rows])


def plain_table(rows):
    """Every key a column, in the order of the first row."""
    keys = [key for key in rows[0] if key not in ("kind", "pass")]
    text = lambda value: f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)
    return table(keys + [""], [[text(row.get(key)) for key in keys] + ["" if row.get("pass", True) else "WRONG"]
                               for row in rows])


def section_text(section):
    parts = []
    rows, checks = section.of_kind("row"), section.of_kind("check")
    if rows:
        parts.append(speed_table(rows) if section.name.startswith("speed") else plain_table(rows))
    if checks:
        parts.append(f"{sum(check['pass'] for check in checks)} of {len(checks)} checks passed")
    for check in checks:
        if not check.get("pass"):
            rest = {key: value for key, value in check.items() if key not in ("kind", "pass", "kernel", "case")}
            parts.append(f"FAIL {check.get('kernel', '')}: {check.get('case', '')}: {json.dumps(rest)}")
    parts += [f"not there: {line.get('what', '')}: {line.get('why', '')}" for line in section.of_kind("absent")]
    return "\n".join(parts)


def summary(done):
    return table(["section", "result", "seconds", ""],
                 [[s.name, s.status, number(s.seconds), s.why] for s in done])


def as_json(card, date, facts, done):
    return {"card": card, "date": date, "facts": facts,
            "sections": [{"name": s.name, "status": s.status, "why": s.why, "seconds": round(s.seconds, 1),
                          "lines": s.lines} for s in done]}


def file_name(card, date):
    """bench/results/nvidia-h200-2026-11-30.json"""
    return re.sub(r"[^a-z0-9]+", "-", card.lower()).strip("-") + f"-{date}.json"


def exit_code(done):
    """1 where something failed, or where nothing passed: a check that checked nothing is not good."""
    statuses = [section.status for section in done]
    return 1 if sections.FAIL in statuses or sections.PASS not in statuses else 0
