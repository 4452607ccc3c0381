"""Writes tensorboard.events: scalars, a restart and values that are not finite, by TensorBoard's own writer of records.

The events are the same as in tests/formats/tensorboard_events_test.cpp, whose bytes must be these. The file is read back
with both of TensorBoard's readers before it is left: what the restart takes away and what stays is checked here.

Written with tensorboard 2.21.0, protobuf 7.36.2 and Python 3.11.7 by: python tests/goldens/make_tensorboard_goldens.py
"""
from __future__ import annotations

import math
from pathlib import Path

from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

START = 1700000000.25  # seconds; each call of ours comes half a second after the one before
LONG_TAG = "a tag of more than 127 bytes, whose length takes two bytes as that of the value around it does/" + 40 * "x"


def scalars(step: int, values: dict[str, float]) -> Event:
    return Event(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)
                                                   for tag, value in values.items()]))


calls = [
    Event(file_version="brain.Event:2"),
    scalars(0, {"loss": 0.0}),
    scalars(1, {"loss": 0.1, "lr": 1e-6, "time/rollout": 12.75, "validity/größe": -3.0}),
    scalars(127, {"loss": math.nan, "grad_norm": math.inf, "lr": -math.inf, "tokens": 16777217.0, "mass": 1e300}),
    scalars(128, {"loss": -0.0}),
    Event(step=128, session_log=SessionLog(status=SessionLog.START)),
    scalars(128, {LONG_TAG: 1.5}),
    scalars(1 << 40, {"loss": 1e-45}),
]
path = Path(__file__).with_name("tensorboard.events")
with path.open("wb") as file:
    writer = RecordWriter(file)
    for i, event in enumerate(calls):
        event.wall_time = START + 0.5 * i
        # The server takes a run's first START for its beginning: only the second one makes a restart.
        for _ in range(2 if event.HasField("session_log") else 1):
            writer.write(event.SerializeToString(deterministic=True))

# The readers take a file for one of events by its name.
link = path.with_name("golden.tfevents")
link.symlink_to(path.name)
try:
    read = EventAccumulator(str(link)).Reload()
    served = plugin_event_accumulator.EventAccumulator(str(link)).Reload()
finally:
    link.unlink()
for found in (read.Scalars("loss"), served.Tensors("loss")):
    assert [(one.step, one.wall_time) for one in found] == [
        (0, START + 0.5), (1, START + 1.0), (127, START + 1.5), (1 << 40, START + 3.5)], "the restart takes step 128 away"
assert math.isnan(read.Scalars("loss")[2].value) and read.Scalars("mass")[0].value == math.inf
