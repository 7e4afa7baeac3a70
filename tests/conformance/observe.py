# SPDX-License-Identifier: Apache-2.0
"""What the texts of other Slurm releases in cases/observe must be read as: its README's figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools import Case, Differs, Reader, same

Check = Callable[[Reader], str]
TEXT = "slurm_text"
NOT_YET = {
    "flight_recorder": "Flight Recorder dumps are read by a later release",
    "straggler": "operation traces are read by a later release",
    "hta": "kineto traces are read by a later release",
    "cc_archive": "ClusterCockpit's job archive is read by a later release",
    "js1": "JS1 job summaries are read by a later release",
    "slurm_json": "Slurm's JSON is read by a later release",
    "prometheus": "exposition text is read by a later release",
}


# --- gcm: sacct -----------------------------------------------------------------------------------


def table(reader: Reader, name: str, separator: str, free_text: str = "") -> tuple[Any, Any, Any]:
    read = reader.read("table", name, separator, free_text)
    if "error" in read:
        raise Differs(read["error"])
    return read["rows"][0], read["rows"][1:], read["refused"]


def sacct_line_break(stem: str) -> Check:
    def check(reader: Reader) -> str:
        header, rows, refused = table(reader, f"{TEXT}/gcm/{stem}.txt", "|#")
        same("separators", len(header) - 1, 109)
        same("records", len(rows), 4)
        same("refused", refused, [])
        _, expected, _ = table(reader, f"{TEXT}/gcm/{stem}-expected.txt", "|#")
        literal = sum(field.count("\\n") for row in rows for field in row)
        joined = [[field.replace("\n", "\\n") for field in row] for row in rows]
        same("fields", joined, expected)
        breaks = [field for row in rows for field in row if "\n" in field]
        same("fields with a line break", len(breaks), 1)
        same("literal backslash-n", literal > 0, stem == "sample-sacct-fake-line-break")
        attempts(reader, f"{TEXT}/gcm/{stem}.txt", "|#")
        return "4 records of 110 fields, the line break kept inside its field"

    return check


def attempts(reader: Reader, name: str, separator: str) -> Any:
    return reader.read("accounting", name, separator)


def invalid_utf8(reader: Reader) -> str:
    header, rows, refused = table(reader, f"{TEXT}/gcm/sample-sacct-output-invalid-utf8.txt", "|")
    same("separators", len(header) - 1, 106)
    same("records", len(rows), 11)
    same("refused", refused, [])
    name = rows[10][header.index("JobName")]
    same("the invalid byte is escaped in JobName", "\ufffd" in name, True)
    return "11 records, the byte 0xff kept"


def invalid_lines(reader: Reader) -> str:
    name = f"{TEXT}/gcm/sample-sacct-output-with-invalid-lines.txt"
    header, rows, refused = table(reader, name, "|")
    same("separators", len(header) - 1, 108)
    same("records", len(rows), 0)
    same("refused", len(refused), 1)
    same("line", refused[0]["line"], 2)
    words = refused[0]["reason"]
    if not words.startswith("92 separators where 108 are due"):
        raise Differs(f"the reason is '{words}'")
    return f"refused: line 2: {words}"


def sacct(name: str, separator: str, records: int) -> Check:
    def check(reader: Reader) -> str:
        path = f"{TEXT}/gcm/{name}"
        header, rows, refused = table(reader, path, separator)
        same("records", len(rows), records)
        same("refused", refused, [])
        column = header.index("JobIDRaw")
        jobs = {row[column].split(".")[0] for row in rows if "." not in row[column]}
        read = attempts(reader, path, separator)
        for entry in read["attempts"]:
            same("job", str(entry["attempt"]["job_id"]) in jobs, True)
        steps = sum(len(entry["steps"]) for entry in read["attempts"])
        taken = len(read["attempts"]) + steps
        same("rows read or refused", taken + len(read["refused"]), records)
        for refusal in read["refused"]:  # a piece of a longer output: steps before their job
            same("reason", refusal["reason"].endswith("comes without its job"), True)
        return f"{records} records: {len(read['attempts'])} attempts, {steps} of their steps"

    return check


MIDNIGHT = "2021-04-08T00:00:00"


def midnight(reader: Reader) -> str:
    path = f"{TEXT}/gcm/sample-sacct-output-midnight-edge-case.txt"
    header, rows, refused = table(reader, path, "|")
    same("rows", len(rows), 1186)
    same("refused", refused, [])
    id_at, end_at = header.index("JobID"), header.index("End")
    ends: dict[str, str] = {}
    for row in rows:
        if "." not in row[id_at]:
            ends[row[id_at]] = row[end_at]
    jobs = {row[id_at].split(".")[0] for row in rows}
    same("jobs", len(jobs), 306)
    last = sorted(row[end_at] for row in rows if row[end_at] != "Unknown")
    same("ends", (last[0], last[-1]), ("2021-04-07T23:55:01", "2021-04-08T00:00:23"))
    late = [
        row
        for row in rows
        if "." in row[id_at]
        and row[end_at] >= MIDNIGHT
        and ends.get(row[id_at].split(".")[0], MIDNIGHT) < MIDNIGHT
    ]
    same("steps that end after midnight and after their job's row", len(late), 11)
    return "1186 rows of 306 jobs, 11 steps end after midnight though their job's row ended before"


def midnight_small(reader: Reader) -> str:
    stem = f"{TEXT}/gcm/sample-sacct-output-midnight-edge-case-small"
    header, rows, refused = table(reader, f"{stem}.txt", "|")
    same("rows", len(rows), 11)
    same("refused", refused, [])
    before = [row[:2] for row in rows if row[header.index("End")] < MIDNIGHT]
    _, expected, _ = table(reader, f"{stem}-expected.txt", "|")
    same("rows before midnight", before, expected)
    return f"11 rows, {len(before)} end before midnight"


# --- gcm: scontrol, squeue, sinfo -----------------------------------------------------------------


def partitions(reader: Reader) -> str:
    read = reader.read("partitions", f"{TEXT}/gcm/sample-scontrol-output.txt")
    same("refused", read["refused"], [])
    found = read["partitions"]
    same("nodes", [one["node_count"] for one in found], [3140, 1469, 3140])
    names = reader.read_lines("hostlist", [one["nodes"] for one in found])
    same("expanded", [len(one) for one in names], [3140, 1469, 3140])
    same("GPUs and CPUs", (found[0]["gpus"], found[0]["cpus"]), (22384, 251200))
    same("default", [one["is_default"] for one in found], [True, False, False])
    return "3 partitions, their node lists expand to TotalNodes"


def partitions_large(reader: Reader) -> str:
    read = reader.read("partitions", f"{TEXT}/gcm/sample-scontrol-output-large.txt")
    found = read["partitions"]
    same("partitions", len(found), 8)
    same("GPUs", found[0]["gpus"], 10864)
    names = reader.read_lines("hostlist", [one["nodes"] for one in found])
    same("expanded", [len(one) for one in names], [one["node_count"] for one in found])
    return "8 partitions, 10,864 GPUs in the first"


def squeue(reader: Reader) -> str:
    read = reader.read("records", f"{TEXT}/gcm/sample-squeue-output.txt", "|#", "35")
    same("refused", read["refused"], [])
    rows = read["rows"][1:]
    same("rows and fields", (len(rows), {len(row) for row in rows}), (5, {35}))
    dependency = next(i for i, text in enumerate(rows[3]) if "(failed)" in text)
    submit = next(i for i, text in enumerate(rows[3]) if text.startswith("2024-01-31T04:06:57"))
    tres = next(i for i, text in enumerate(rows[3]) if text.startswith("cpu=1,mem=10G"))
    fields = [f"F{i}" for i in range(35)]
    fields[2], fields[3], fields[4], fields[9] = "JobArrayID", "JobID", "Name", "State"
    fields[dependency], fields[submit], fields[tres] = "Dependency", "SubmitTime", "tres-alloc"
    data = b"header\n" + (reader.folder / f"{TEXT}/gcm/sample-squeue-output.txt").read_bytes()
    jobs = reader.read_bytes("jobs", data, "|#", ",".join(fields), "4")["jobs"]
    same("jobs", len(jobs), 5)
    arrays = {job["job_id"]: job["array"] for job in jobs}
    same("array task", (arrays[42953598]["job_id"], arrays[42953598]["task_id"]), (42953390, 320))
    pending = arrays[42271120]
    same("pending tasks", (pending["task_id"], pending["tasks"]), (None, "7-8%1"))
    failed = [job["dependency"] for job in jobs if "(failed)" in (job["dependency"] or "")]
    same("dependency", failed, ["afterok:22783211_*(failed)"])
    same("GPUs", [job["gpus"] for job in jobs], [2, 1, 256, None, 160])
    return "5 jobs, array forms 42953390_320 and 42271120_[7-8%1]"


def structured(reader: Reader) -> str:
    read = reader.read("records", f"{TEXT}/gcm/sinfo-output-for-structured.txt", "|", "7")
    rows = [[field.strip() for field in row] for row in read["rows"][1:]]
    names = {row[0] for row in rows}
    same("nodes", len(names), 10)
    words = {row[0]: row[5] for row in rows}
    same("states", Counter(words.values()), {"allocated": 1, "mixed": 6, "idle": 2, "drained$": 1})
    states = dict(zip(words, reader.read_lines("states", list(words.values()))))
    drained = [name for name, found in states.items() if "DRAINED" in found]
    same("drained", len(drained), 1)
    same("its suffix", states[drained[0]], ["DRAINED", "MAINTENANCE"])
    return "10 nodes: allocated 1, mixed 6, idle 2, drained 1 (in a maintenance reservation)"


def sinfo_nodes(reader: Reader) -> str:
    header, rows, refused = table(reader, f"{TEXT}/gcm/sample-sinfo-output.txt", "|")
    same("fields", len(header), 43)
    same("rows", len(rows), 3)
    same("refused", [one["line"] for one in refused], [2])
    nodes = {row[header.index("HOSTNAMES")] for row in rows}
    gres = reader.read_lines("gres", [row[header.index("GRES")].strip() for row in rows])
    same("GPUs are read", all(one["gpus"] > 0 for one in gres), True)
    return f"{len(rows)} rows of {len(nodes)} nodes; line 2 refused: {refused[0]['reason']}"


def qos(reader: Reader) -> str:
    header, rows, refused = table(reader, f"{TEXT}/gcm/sample-sacctmgr-qos.txt", "|")
    same("refused", refused, [])
    same("rows and fields", (len(rows), {len(row) for row in rows}), (5, {len(header)}))
    same("names", [row[0] for row in rows], [f"normal{i}" for i in range(1, 6)])
    gpus = reader.read_lines("tres", [row[header.index("GrpTRES")] or "(null)" for row in rows])
    same("GPUs of GrpTRES", gpus, [None, 8192, None, 128, 512])
    return "5 qualities of service"


GPUS = {
    "all_gpus": {30214: [8]},
    "some_gpus": {30214: [4]},
    "no_gpus": {30214: [0]},
    "multi_node": {None: [8] * 8},
    "main_array_job": {30214: [4], 31214: [3]},
    "unique_entries": {30214: [4], 31214: [3]},
    "repeated_entry": {30214: None},
}
INDICES = {
    "all_gpus": ["0-7"],
    "some_gpus": ["0-3"],
    "main_array_job": ["0-3", "5-7"],
    "unique_entries": ["0-3", "5-7"],
}


def indices(text: str) -> list[int]:
    low, high = text.split("-")
    return list(range(int(low), int(high) + 1))


def gres_index(stem: str) -> Check:
    def check(reader: Reader) -> str:
        read = reader.read("allocations", f"{TEXT}/gcm/scontrol_out_{stem}.txt")
        jobs = read["jobs"]
        expected_jobs = 2 if stem in ("main_array_job", "unique_entries") else 1
        same("jobs", len(jobs), expected_jobs)
        held = [
            [int(device.rsplit(":", 1)[1]) for device in allocation["devices"]]
            for job in jobs
            for allocation in job["allocations"]
        ]
        nodes = {one["node"] for job in jobs for one in job["allocations"]}
        if stem == "multi_node":
            same("nodes", len(nodes), 8)
            same("indices", held, [indices("0-7")] * 8)
        elif stem == "no_gpus":
            same("indices", held, [[]])
        elif stem == "repeated_entry":
            same("refused", [one["reason"] for one in read["refused"]], [TWO_RECORDS] * 2)
            same("one node", len(nodes), 1)
        else:
            same("indices", held, [indices(one) for one in INDICES[stem]])
        if stem == "unique_entries":
            same("one node", len(nodes), 1)
        words = "; ".join(",".join(map(str, one)) or "none" for one in held)
        return f"{len(jobs)} job(s), indices {words}"

    return check


TWO_RECORDS = "job 30214 has two records"


# --- sckyzo ---------------------------------------------------------------------------------------


def gpu_lines(reader: Reader, name: str, used_column: bool) -> tuple[int, int, int]:
    """GPUs of lines "count [state or partition] gres [used]": all, slices of MIG, in use."""
    total = mig = used = 0
    counts: list[int] = []
    texts: list[str] = []
    for line in reader.text(name).splitlines():
        words = line.split()
        if not words:
            continue
        counts.append(int(words[0]))
        texts.extend(words[-2:] if used_column else [words[-1]])
    read = reader.read_lines("gres", texts)
    if any("error" in one for one in read):
        raise Differs(str([one["error"] for one in read if "error" in one]))
    step = 2 if used_column else 1
    for place, count in enumerate(counts):
        total += count * read[place * step]["gpus"]
        mig += count * read[place * step]["mig"]
        if used_column:
            used += count * read[place * step + 1]["gpus"]
    return total, mig, used


TOTALS = {
    "slurm-20.11.8": (48, 7),
    "slurm-21.08.5": (16, 0),
    "slurm-23.11.10": (232, 33),
    "slurm-25.05": (4232, 4226),
    "slurm-25.11.1-1": (154, 78),
}
IDLE = {
    "slurm-20.11.8": None,
    "slurm-21.08.5": (16, 0),
    "slurm-25.05": (4232, 4226),
    "slurm-25.11.1-1": (101, 77),
}


def totals(version: str) -> Check:
    def check(reader: Reader) -> str:
        base = f"{TEXT}/sckyzo/{version}"
        total, mig, _ = gpu_lines(reader, f"{base}/sinfo_gpus_total.txt", False)
        allocated, _, _ = gpu_lines(reader, f"{base}/sinfo_gpus_allocated.txt", False)
        same("total and allocated", (total, allocated), TOTALS[version])
        same("MIG slices", mig, 21 if version == "slurm-25.11.1-1" else 0)
        words = f"{total} GPUs, {allocated} allocated"
        expected = IDLE.get(version)
        if (reader.folder / base / "sinfo_gpus_idle.txt").exists():
            there, _, used = gpu_lines(reader, f"{base}/sinfo_gpus_idle.txt", True)
            if expected:
                same("idle capture", (there, used), expected)
            words += f"; idle capture {there} / {used}"
        if version == "slurm-25.11.1-1":
            there, _, used = gpu_lines(reader, f"{base}/partitions_gpu.txt", True)
            same("partitions_gpu", (there, used), (101, 69))
        return words

    return check


def gpus(name: str, total: int, used: int, used_column: bool = True) -> Check:
    def check(reader: Reader) -> str:
        there, mig, allocated = gpu_lines(reader, f"{TEXT}/sckyzo/{name}", used_column)
        same("GPUs and allocated", (there, allocated), (total, used))
        return f"{there} GPUs, {allocated} allocated" + (f", {mig} slices" if mig else "")

    return check


def long_gres(reader: Reader) -> str:
    there, _, _ = gpu_lines(reader, f"{TEXT}/sckyzo/gpus_snapshot_long_gres.txt", False)
    parts, _, used = gpu_lines(reader, f"{TEXT}/sckyzo/partitions_gpu_long_gres.txt", True)
    same("GPUs", (there, parts, used), (52, 40, 10))
    return "52 and 40 GPUs, 0 and 10 allocated; mig: entries are not GPUs"


def node_gres(reader: Reader) -> str:
    name = f"{TEXT}/sckyzo/slurm-25.05/node_detail_gres.txt"
    rows = [line.split() for line in reader.text(name).splitlines() if line.strip()]
    used = reader.read_lines("gres", [row[7] for row in rows])
    total = reader.read_lines("gres", [row[6] for row in rows])
    found: dict[str, tuple[int, int, list[int]]] = {}
    states: dict[str, str] = {}
    for row, there, held in zip(rows, total, used):
        places = [i for entry in held["entries"] for i in entry["indices"]]
        found[row[0]] = (there["gpus"], held["gpus"], places)
        states[row[0]] = row[4]
    expected = {
        "a001": (4, 4, [0, 1, 2, 3]),
        "a002": (4, 0, []),
        "a003": (4, 0, []),
        "a004": (4, 0, []),
        "a005": (4, 2, [0, 3]),
        "c001": (0, 0, []),
    }
    same("nodes", found, expected)
    read = dict(zip(states, reader.read_lines("states", list(states.values()))))
    same("a002", read["a002"], ["DRAINED", "NOT_RESPONDING"])
    same("a004", read["a004"], ["MAINTENANCE"])
    return "6 nodes, each counted once; indices 0,3 on a005"


def multitype(reader: Reader) -> str:
    name = f"{TEXT}/sckyzo/slurm-25.11.2/node_detail_gres_multitype.txt"
    words = reader.text(name).split()
    total, used = reader.read_lines("gres", words[-2:])
    same("GPUs", (total["gpus"], used["gpus"]), (4, 1))
    same("indices of model_b", used["entries"][1]["indices"], [2])
    return "4 GPUs of two models, model_b index 2 in use"


def queue(name: str) -> Check:
    def check(reader: Reader) -> str:
        read = reader.read("records", f"{TEXT}/sckyzo/{name}", "|", "5")
        same("refused", read["refused"], [])
        rows = read["rows"][1:]
        states = Counter(row[1] for row in rows)
        cores: Counter[str] = Counter()
        for row in rows:
            cores[row[1]] += int(row[2])
        if name == "queue_all_states.txt":
            order = "CANCELLED RUNNING PENDING COMPLETED NODE_FAIL TIMEOUT FAILED SUSPENDED".split()
            same("states", [states[one] for one in order], [24, 15, 10, 2, 1, 1, 1, 1])
            same("cores", [cores[one] for one in order], [102, 78, 42, 4, 2, 2, 2, 4])
        return ", ".join(f"{state} {count}" for state, count in states.most_common())

    return check


def squeue_jobs(name: str, expected: dict[str, int]) -> Check:
    def check(reader: Reader) -> str:
        read = reader.read("records", f"{TEXT}/sckyzo/{name}", "|", "8")
        same("refused", read["refused"], [])
        rows = read["rows"][1:]
        states = Counter(row[4] for row in rows)
        if expected:
            same("states", states, expected)
            both = [row[3] for row in rows if "," in row[3]]
            same("pending in two partitions", both, ["cpu,gpu"])
        reader.read_lines("tres", [row[7] for row in rows])
        return ", ".join(f"{state} {count}" for state, count in states.items())

    return check


def views(name: str) -> Check:
    def check(reader: Reader) -> str:
        read = reader.read("records", f"{TEXT}/sckyzo/{name}", "|", "6")
        same("refused", read["refused"], [])
        rows = [[field.strip() for field in row] for row in read["rows"][1:]]
        found = reader.read_lines("tres", [row[5] for row in rows])
        asked = sum(one or 0 for one in found)
        written = sum(
            int(n) for row in rows for n in re.findall(r"gres/gpu(?::\w+)?=(\d+)", row[5])
        )
        same("GPUs", asked, written)
        return f"{len(rows)} jobs, {asked} GPUs"

    return check


def scontrol_nodes(name: str) -> Check:
    def check(reader: Reader) -> str:
        read = reader.read("nodes", f"{TEXT}/sckyzo/{name}")
        same("refused", read["refused"], [])
        lines = [line for line in reader.text(f"{TEXT}/sckyzo/{name}").splitlines() if line.strip()]
        found = read["nodes"]
        same("nodes", len(found), len(lines))
        for node, line in zip(found, lines):
            words = re.search(r" State=(\S+)", line)
            same("states", "+".join(node["states"]), words.group(1) if words else "")
            reason = re.search(r" Reason=(.*) \[", line)
            same("reason", node["reason"] or "", reason.group(1) if reason else "")
        return f"{len(found)} nodes"

    return check


def node_rows(name: str, nodes: int) -> Check:
    def check(reader: Reader) -> str:
        rows = [line.split() for line in reader.text(f"{TEXT}/sckyzo/{name}").splitlines() if line]
        names = {row[0] for row in rows}
        same("nodes", len(names), nodes)
        for found in reader.read_lines("states", [row[4] for row in rows]):
            same("a state is read", bool(found[0]), True)
        return f"{len(names)} nodes in {len(rows)} rows"

    return check


def scheduler(name: str, threads: int, submitted: int, job_info: int | None) -> Check:
    def check(reader: Reader) -> str:
        read = reader.read("sdiag", f"{TEXT}/sckyzo/{name}")
        same("threads", read["server_threads"], threads)
        same("jobs submitted", read["jobs_submitted"], submitted)
        same("REQUEST_JOB_INFO", read["by_type"].get("REQUEST_JOB_INFO"), job_info)
        return f"{threads} threads, {submitted} jobs submitted, {len(read['by_type'])} RPC types"

    return check


def efficiency(reader: Reader) -> str:
    read = reader.read("records", f"{TEXT}/sckyzo/sacct_efficiency.txt", "|", "9")
    same("refused", read["refused"], [])
    rows = read["rows"][1:]
    jobs = {row[0] for row in rows if "." not in row[0]}
    same("jobs and rows", (len(jobs), len(rows)), (5, 12))
    same("MaxRSS stands on step rows only", {row[7] for row in rows if "." not in row[0]}, {""})
    return "5 jobs, 7 steps"


def reservations(name: str, expected: list[tuple[str, str, str]]) -> Check:
    def check(reader: Reader) -> str:
        read = reader.read(
            "keys", f"{TEXT}/sckyzo/{name}", "ReservationName=", "ReservationName", "Nodes", "State"
        )
        same("refused", read["refused"], [])
        found = [tuple(one.values()) for one in read["records"]]
        same("reservations", found, expected)
        return f"{len(found)} reservations"

    return check


def relative_time(reader: Reader) -> str:
    check = reservations("reservations_relative_time.txt", [("maint-158", "c[1-4]", "ACTIVE")])
    read = reader.read(
        "keys", f"{TEXT}/sckyzo/reservations_relative_time.txt", "ReservationName=", "StartTime"
    )
    start = read["records"][0]["StartTime"]
    same("the time has no date", reader.read_lines("time", [start]), [None])
    return f"{check(reader)}; {start} has no date: unknown"


def licenses(name: str, expected: list[tuple[str, str]]) -> Check:
    def check(reader: Reader) -> str:
        read = reader.read("keys", f"{TEXT}/sckyzo/{name}", "LicenseName=", "LicenseName", "Used")
        same("refused", read["refused"], [])
        same("licences", [tuple(one.values()) for one in read["records"]], expected)
        return f"{len(expected)} licences"

    return check


def fields(name: str, separator: str, count: int, records: int) -> Check:
    """A text of so many records of so many fields, none refused."""

    def check(reader: Reader) -> str:
        read = reader.read("records", f"{TEXT}/{name}", separator, str(count))
        same("refused", read["refused"], [])
        rows = read["rows"][1:]
        same("records", len(rows), records)
        return f"{records} records of {count} fields"

    return check


# --- osc ------------------------------------------------------------------------------------------

SQUEUE_NAMES = {
    "ACCOUNT": "Account",
    "ARRAY_JOB_ID": "ArrayJobID",
    "ARRAY_TASK_ID": "ArrayTaskID",
    "CPUS": "NumCPUs",
    "NODES": "NumNodes",
    "NAME": "Name",
    "COMMENT": "Comment",
    "TIME_LIMIT": "TimeLimit",
    "NODELIST": "NodeList",
    "COMMAND": "Command",
    "QOS": "QOS",
    "PARTITION": "Partition",
    "REASON": "Reason",
    "START_TIME": "StartTime",
    "END_TIME": "EndTime",
    "STATE": "State",
    "USER": "UserName",
    "UID": "UserID",
    "SUBMIT_TIME": "SubmitTime",
    "WORK_DIR": "WorkDir",
    "TRES_ALLOC": "tres-alloc",
    "TRES_PER_NODE": "tres-per-node",
    "DEPENDENCY": "Dependency",
}


def osc_fields(data: bytes) -> tuple[str, int]:
    """squeue -o's header as -O's names; the first JOBID is the raw id, the second the label."""
    names: list[str] = []
    seen = 0
    for word in data.split(b"\n", 1)[0].decode().rstrip("\x1f").split("\x1f"):
        if word == "JOBID":
            seen += 1
            names.append("JobID" if seen == 1 else "JobArrayID")
        else:
            names.append(SQUEUE_NAMES.get(word, f"x{len(names)}"))
    return ",".join(names), names.index("Name")


def osc_name(reader: Reader) -> str:
    data = (reader.folder / TEXT / "osc/non_utf8_job_name.txt").read_bytes()
    raw = data.replace(b"\xef\xbf\xbd", b"\xff")
    for variant in (data, raw):
        fields, name = osc_fields(variant)
        read = reader.read_bytes("jobs", variant, "\x1f", fields, str(name))
        same("refused", read["refused"], [])
        same("jobs", len(read["jobs"]), 1)
        job = read["jobs"][0]
        same("name", job["name"], "\ufffd non-utf8")
        same("array task", job["array"]["task_id"], 9)
        same("state", job["state"], "COMPLETED")
        same("gpfs is no GPU", job["gpus"], None)
    return "one job, name kept with the raw byte 0xff too, task 9, COMPLETED, no GPU"


def osc_submit(reader: Reader) -> str:
    data = (reader.folder / TEXT / "osc/null_submit_time.txt").read_bytes()
    fields, name = osc_fields(data)
    read = reader.read_bytes("jobs", data, "\x1f", fields, str(name))
    same("refused", read["refused"], [])
    same("jobs", len(read["jobs"]), 4)
    first, last = read["jobs"][0], read["jobs"][3]
    same("first", (first["user"], first["state"]), ("user01", "RUNNING"))
    same("submitted", first["submit"], 1773146068)  # 2026-03-10T12:34:28Z
    same("last", last["state"], "TIMEOUT")
    without = reader.read_bytes("table", data, "\x1f")
    same("without a free-text column it is refused", len(without["refused"]), 1)
    return "4 jobs; the separator inside the first name is part of the name"


def osc_nodes(reader: Reader) -> str:
    data = (reader.folder / TEXT / "osc/owens_nodes.txt").read_bytes()
    lines = [part for part in data.replace(b"\n", b"").split(b"\x1e") if part]
    read = reader.read_bytes("records", b"\n".join(lines) + b"\n", "\x1f", "3")
    same("refused", read["refused"], [])
    rows = read["rows"][1:]
    same("records", len(rows), len(lines))
    same("names", all(re.fullmatch(r"o\d{4}", row[1]) for row in rows), True)
    racks = {word for row in rows for word in row[2].split(",") if word.startswith("eth-owens-")}
    return f"{len(rows)} nodes in {len(racks)} racks"


def osc_gres(reader: Reader) -> str:
    rows = [
        line.split()
        for line in reader.text(f"{TEXT}/osc/sinfo_gres_long_hostnames.txt").splitlines()
        if line.strip()
    ]
    total = reader.read_lines("gres", [row[1] for row in rows])
    used = reader.read_lines("gres", [row[2] for row in rows])
    found = [(a["gpus"], b["gpus"]) for a, b in zip(total, used)]
    same("GPUs", found, [(8, 8), (8, 4), (8, 0)])
    return "8/8, 8/4, 8/0 GPUs"


CHECKS: dict[str, Check] = {
    "gcm/sample-sacct-fake-line-break.txt": sacct_line_break("sample-sacct-fake-line-break"),
    "gcm/sample-sacct-one-multiline.txt": sacct_line_break("sample-sacct-one-multiline"),
    "gcm/sample-sacct-output-invalid-utf8.txt": invalid_utf8,
    "gcm/sample-sacct-output-with-invalid-lines.txt": invalid_lines,
    "gcm/sample-sacct-output.txt": sacct("sample-sacct-output.txt", "|", 68),
    "gcm/sample-sacct-running-output.txt": sacct("sample-sacct-running-output.txt", "|#", 10),
    "gcm/sample-sacct-output-midnight-edge-case.txt": midnight,
    "gcm/sample-sacct-output-midnight-edge-case-small.txt": midnight_small,
    "gcm/sample-scontrol-output.txt": partitions,
    "gcm/sample-scontrol-output-large.txt": partitions_large,
    "gcm/sample-squeue-output.txt": squeue,
    "gcm/sinfo-output-for-structured.txt": structured,
    "gcm/sample-sinfo-output.txt": sinfo_nodes,
    "gcm/sample-sacctmgr-qos.txt": qos,
    **{f"gcm/scontrol_out_{stem}.txt": gres_index(stem) for stem in GPUS},
    **{f"sckyzo/{version}/sinfo_gpus_total.txt": totals(version) for version in TOTALS},
    "sckyzo/slurm-26.05.2/gpus_snapshot.txt": gpus("slurm-26.05.2/gpus_snapshot.txt", 40, 0),
    "sckyzo/slurm-26.05.2/partitions_gpu.txt": gpus("slurm-26.05.2/partitions_gpu.txt", 40, 0),
    "sckyzo/gpus_snapshot.txt": gpus("gpus_snapshot.txt", 64, 18),
    "sckyzo/gpus_snapshot_long_gres.txt": long_gres,
    "sckyzo/slurm-25.05/node_detail_gres.txt": node_gres,
    "sckyzo/slurm-25.11.2/node_detail_gres_multitype.txt": multitype,
    "sckyzo/queue_all_states.txt": queue("queue_all_states.txt"),
    "sckyzo/slurm-26.05.2/queue_all_states.txt": queue("slurm-26.05.2/queue_all_states.txt"),
    "sckyzo/slurm-26.05.2/queue_default_states.txt": queue(
        "slurm-26.05.2/queue_default_states.txt"
    ),
    "sckyzo/squeue_jobs.txt": squeue_jobs(
        "squeue_jobs.txt", {"RUNNING": 5, "PENDING": 3, "SUSPENDED": 1}
    ),
    "sckyzo/slurm-26.05.2/squeue_jobs.txt": squeue_jobs("slurm-26.05.2/squeue_jobs.txt", {}),
    "sckyzo/squeue_jobs_accounts_view.txt": views("squeue_jobs_accounts_view.txt"),
    "sckyzo/squeue_jobs_users_view.txt": views("squeue_jobs_users_view.txt"),
    "sckyzo/scontrol_nodes.txt": scontrol_nodes("scontrol_nodes.txt"),
    "sckyzo/slurm-26.05.2/scontrol_nodes.txt": scontrol_nodes("slurm-26.05.2/scontrol_nodes.txt"),
    "sckyzo/node_detail.txt": node_rows("node_detail.txt", 8),
    "sckyzo/node_detail_default_partition.txt": node_rows("node_detail_default_partition.txt", 2),
    "sckyzo/node_detail_long_names.txt": node_rows("node_detail_long_names.txt", 3),
    "sckyzo/slurm-26.05.2/node_detail.txt": node_rows("slurm-26.05.2/node_detail.txt", 20),
    "sckyzo/reservations.txt": reservations(
        "reservations.txt", [("pre-reservation-maintenance", "node[001-102]", "INACTIVE")]
    ),
    "sckyzo/reservations_empty.txt": reservations("reservations_empty.txt", []),
    "sckyzo/slurm-26.05.2/reservations.txt": reservations("slurm-26.05.2/reservations.txt", []),
    "sckyzo/reservations_relative_time.txt": relative_time,
    "sckyzo/licenses.txt": licenses("licenses.txt", [("ansys@flex", "20"), ("fluent@flex", "10")]),
    "sckyzo/slurm-26.05.2/licenses.txt": licenses("slurm-26.05.2/licenses.txt", []),
    "sckyzo/cpus.txt": fields("sckyzo/cpus.txt", "/", 4, 1),
    "sckyzo/slurm-26.05.2/cpus.txt": fields("sckyzo/slurm-26.05.2/cpus.txt", "/", 4, 1),
    "sckyzo/fairshare.txt": fields("sckyzo/fairshare.txt", "|", 7, 10),
    "sckyzo/slurm-26.05.2/fairshare.txt": fields("sckyzo/slurm-26.05.2/fairshare.txt", "|", 7, 2),
    "sckyzo/slurm-26.05.2/drain_reason.txt": fields(
        "sckyzo/slurm-26.05.2/drain_reason.txt", "|", 4, 25
    ),
    "sckyzo/slurm-26.05.2/nodes_global.txt": fields(
        "sckyzo/slurm-26.05.2/nodes_global.txt", "|", 4, 5
    ),
    "sckyzo/slurm-26.05.2/partitions_cpu.txt": fields(
        "sckyzo/slurm-26.05.2/partitions_cpu.txt", ",", 2, 4
    ),
    "sckyzo/slurm-25.11.1-1/partitions_cpu.txt": fields(
        "sckyzo/slurm-25.11.1-1/partitions_cpu.txt", ",", 2, 5
    ),
    "osc/sinfo_fc.txt": fields("osc/sinfo_fc.txt", "/", 8, 1),
    "sckyzo/scheduler.txt": scheduler("scheduler.txt", 3, 9706, None),
    "sckyzo/slurm-26.05.2/scheduler.txt": scheduler("slurm-26.05.2/scheduler.txt", 1, 14, 11),
    "sckyzo/sacct_efficiency.txt": efficiency,
    "osc/non_utf8_job_name.txt": osc_name,
    "osc/null_submit_time.txt": osc_submit,
    "osc/owens_nodes.txt": osc_nodes,
    "osc/sinfo_gres_long_hostnames.txt": osc_gres,
}
"""Inputs that belong to the case of another file."""
PART_OF = (
    "-expected.txt",
    "-expected.json",
    "sinfo_gpus_allocated.txt",
    "sinfo_gpus_idle.txt",
    "slurm-25.11.1-1/partitions_gpu.txt",
    "partitions_gpu_long_gres.txt",
    "provenance.txt",
)


def cases(folder: Path) -> list[Case]:
    found = []
    for name, check in CHECKS.items():
        found.append(Case(f"{TEXT}/{name}", check))
    for path in sorted((folder / TEXT).rglob("*")):
        name = path.relative_to(folder / TEXT).as_posix()
        if path.is_file() and name not in CHECKS and not name.endswith(PART_OF):
            found.append(Case(f"{TEXT}/{name}", None, "no expectation is written for it yet"))
    for area, reason in NOT_YET.items():
        if (folder / area).is_dir():
            found.append(Case(area, None, reason))
    return sorted(found, key=lambda case: case.name)
