#!/usr/bin/env python3
"""The scalars of a run as TensorBoard reads them, against its metrics.jsonl.

    tensorboard_reads.py EVENTS_DIR METRICS_JSONL

EventAccumulator reads all events files of EVENTS_DIR as one run, and so does the reader of TensorBoard's server, which has
other rules for what a restart takes away; both must give the same. Each number of a step's line, but `step` itself, must be
there once under its name, nested ones as time/NAME, teachers/NAME/NAME and so on, equal to what the line says in
single precision; no other tag or step may be there. A null says either that there is no value, and TensorBoard must have
none, or that it is not finite, which JSON cannot say: TensorBoard must have a NaN or an infinity then, or nothing. Exits 1
with a sentence where something differs. Written for tensorboard 2.21.0.
"""
import json
import logging
import math
import pathlib
import sys

import numpy
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.util import tensor_util

from results import report


def fields_of(line, prefix=""):
    """Tag and number (None for null) of all that a line says; other values than numbers are not TensorBoard's."""
    for name, value in line.items():
        if isinstance(value, dict):
            yield from fields_of(value, f"{prefix}{name}/")
        elif prefix + name != "step" and not isinstance(value, bool) and (value is None or isinstance(value, (int, float))):
            yield prefix + name, value


def read_metrics(path):
    """By tag, by step: numbers in single precision, None for null."""
    expected, steps = {}, set()
    with open(path) as lines:
        for number, text in enumerate(lines, 1):
            line = json.loads(text)
            if line["step"] in steps:
                sys.exit(f"{path}:{number}: step {line['step']} stands there a second time.")
            steps.add(line["step"])
            for tag, value in fields_of(line):
                with numpy.errstate(over="ignore"):  # beyond single precision lies infinity, for the writer too
                    single = None if value is None else float(numpy.float32(value))
                expected.setdefault(tag, {})[line["step"]] = single
    if not steps:
        sys.exit(f"{path}: no steps.")
    return expected, len(steps)


def read_scalars(directory):
    """By tag, pairs of step and value, as EventAccumulator gives them."""
    events = event_accumulator.EventAccumulator(directory, size_guidance={event_accumulator.SCALARS: 0}).Reload()
    others = {kind: tags for kind, tags in events.Tags().items() if tags and kind != event_accumulator.SCALARS}
    if others:
        sys.exit(f"{directory}: TensorBoard finds other things than scalars: {others}.")
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)]
            for tag in events.Tags()[event_accumulator.SCALARS]}


def read_served(directory):
    """The same as the server gives them to its dashboards, where a scalar is a tensor of the plugin `scalars`."""
    events = plugin_event_accumulator.EventAccumulator(
        directory, size_guidance={plugin_event_accumulator.TENSORS: 0}).Reload()
    return {tag: [(event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
            for tag in events.PluginTagToContent("scalars")}


def compare(directory, found, metrics, expected):
    """Ends with a sentence where `found` is not what is expected; the number of values."""
    for tag in sorted(found.keys() - expected.keys()):
        sys.exit(f"{directory}: TensorBoard has {tag!r}, which {metrics} does not.")
    values = 0
    for tag, by_step in expected.items():
        there = {}
        for step, value in found.get(tag, []):
            if step in there:
                sys.exit(f"{directory}: TensorBoard has {tag!r} of step {step} twice.")
            if step not in by_step:
                sys.exit(f"{directory}: TensorBoard has {tag!r} of step {step}, which {metrics} does not.")
            there[step] = value
        for step, value in by_step.items():
            if value is None:
                if math.isfinite(there.get(step, math.nan)):
                    sys.exit(f"{directory}: TensorBoard has {tag!r} of step {step} as {there[step]}, {metrics} as null.")
            elif step not in there:
                sys.exit(f"{directory}: TensorBoard lacks {tag!r} of step {step}, which is {value} in {metrics}.")
            elif there[step] != value:
                sys.exit(f"{directory}: TensorBoard has {tag!r} of step {step} as {there[step]}, {metrics} as {value}.")
        values += len(there)
    return values


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: tensorboard_reads.py EVENTS_DIR METRICS_JSONL")
    directory, metrics = sys.argv[1:]
    if not any(pathlib.Path(directory).glob("*tfevents*")):
        sys.exit(f"{directory}: no events files; is the path right?")
    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it warns of what a restart takes away, as it should
    expected, steps = read_metrics(metrics)
    for read in (read_scalars, read_served):
        values = compare(directory, read(directory), metrics, expected)
    print(f"{values} values in {steps} steps of {directory}: TensorBoard's readers give what {metrics} says")
    report("scalars of a run's events files", "TensorBoard", "equal", f"{values} values in {steps} steps", True)


main()
