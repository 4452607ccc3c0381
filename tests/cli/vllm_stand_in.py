#!/usr/bin/env python3
"""A server in vLLM's or SGLang's shapes, with the model of a real `routeopd serve` behind it: what the trainer's clients of these
servers are tried against where neither runs. vLLM's shapes are those of its recorded answers (tests/engine/answers), SGLang's
those of its source.

    vllm_stand_in.py PORT_OF_SERVE [--shape sglang] [--fault NAME] [--port N]
"""
import argparse
import base64
import http.client
import http.server
import json
import struct
import threading

from serving import pack, unpack

FAULTS = {
    "nan": "one value of a state that is scored is NaN",
    "minus_inf": "one value of a state that is scored is the sentinel -9999",
    "short": "scores end before the tokens do",
    "misaligned": "scores are of another token",
    "logits": "values are not log-probabilities",
    "cut": "the answer ends in the middle",
    "stale": "answers name the weights of before the last reload",
    "reload": "a reload fails half-way",
    "no_dev_mode": "started without VLLM_SERVER_DEV_MODE=1",
    "old": "a version that is not supported",
    "scaled": "values after the temperature",
}


class StandIn:
    """Listens at 127.0.0.1. `faults`: {name: numbers of the answers that have it, counted from 0 among those of its kind}, or
    {name: None} for all. `widest`: --max-logprobs, -1 for all ids. `per_position`: has prompt_logprob_token_ids, as on GPUs."""

    def __init__(self, port_behind, shape="vllm", faults=None, widest=64, per_position=False, scale_out=True, positions=256, port=0):
        self.port_behind, self.shape, self.faults = port_behind, shape, dict(faults or {})
        self.widest, self.per_position, self.scale_out, self.positions = widest, per_position, scale_out, positions
        self.label, self.old_label, self.paused, self.reloads = "default", "default", False, 0
        self.asked = []  # paths, in order
        self.counted, self.lock = {}, threading.Lock()
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # an answer's head and body are sent apart, and would wait for each other

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer({})

            def do_POST(self):
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

            def answer(self, body):
                path = self.path.split("?")[0]
                with stand_in.lock:
                    stand_in.asked.append(self.path)
                status, value = getattr(stand_in, stand_in.shape)(path, body)
                data = json.dumps(value).encode()
                if value.pop("cut", False):
                    data = data[:len(data) // 2]
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # clients go away
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()

    def has(self, fault, number=None):
        """Whether this is an answer that has the fault."""
        if fault not in self.faults:
            return False
        if number is None:
            with self.lock:
                number = self.counted[fault] = self.counted.get(fault, -1) + 1
        return self.faults[fault] is None or number in self.faults[fault]

    # ---- the model behind it ----

    def behind(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port_behind, timeout=300)
        try:
            connection.request("POST", path, body)
            answer = connection.getresponse()
            data = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {data[:500]}")
            return data
        finally:
            connection.close()

    def scores(self, tokens, first, k, given=()):
        """For each token from `first` on: [id, value], the k best as [[id, value], …], values at its row of `given`."""
        states = len(tokens) - first
        width = 1 + (len(given[0]) if given else 0)
        rows = [[token, *(given[n] if given else [])] for n, token in enumerate(tokens[first:])]
        tensors, _ = unpack(self.behind("/v1/score", pack(
            {"ids": ("I32", [len(tokens)], tokens), "lengths": ("I32", [1], [len(tokens)]),
             "prompt_lengths": ("I32", [1], [first]), "gather_ids": ("I32", [states, width], sum(rows, []))}, {"k": k})))
        columns = tensors["top_ids.shape"][1] if k else 0
        answer = []
        for n in range(states):
            total = tensors["logsumexp"][n]
            best = [[tensors["top_ids"][n * columns + j], tensors["top_logits"][n * columns + j] - total] for j in range(columns)]
            values = [tensors["gathered_logits"][n * width + j] - total for j in range(width)]
            answer.append(([tokens[first + n], values[0]], best, values[1:]))
        return self.spoiled(answer) if len(tokens) > 2 else answer  # two tokens are what a client asks about the server

    def spoiled(self, rows):
        """The third state from the end: scores in vLLM's shapes begin with those of the prompt."""
        if self.has("nan"):
            rows[-3][1][0][1] = None
        if self.has("minus_inf"):
            rows[-3][1][-1][1] = -9999.0
        if self.has("misaligned"):
            rows[-3][0][0] ^= 1
        if self.has("logits"):
            rows[-3][1][0][1] = 3.5
        return rows[:-2] if self.has("short") else rows

    def written(self, prompt, k, seed, temperature, top_p, top_k, most, stop, ignore_eos):
        """Tokens as (id, value, the k best), and how it ended."""
        tensors, _ = unpack(self.behind("/v1/generate", pack(
            {"ids": ("I32", [len(prompt)], prompt), "lengths": ("I32", [1], [len(prompt)])},
            {"seed": seed, "temperature": temperature, "top_p": top_p, "top_k": max(top_k, 0), "max_new_tokens": most, "k": k,
             "stop": stop, "ignore_eos": ignore_eos})))
        columns = tensors["top_ids.shape"][1] if k else 0
        tokens = []
        for n, token in enumerate(tensors["ids"]):
            best = [[tensors["top_ids"][n * columns + j], tensors["top_logits"][n * columns + j] - tensors["logsumexp"][n]]
                    for j in range(columns)]
            value = next((value for one, value in best if one == token), tensors["logprobs"][n])
            if "scaled" in self.faults:
                best, value = [[one, value / temperature - 1] for one, value in best], value / temperature - 1
            tokens.append((token, value, best))
        return tokens, ("stop", "length")[tensors["finish"][0]]

    def named(self):
        """The label that an answer carries."""
        return self.old_label if self.reloads and self.has("stale") else self.label

    def reload(self, path):
        self.reloads += 1
        if self.has("reload"):
            return False
        self.behind("/v1/reload", json.dumps({"path": path, "version": self.reloads}))
        return True

    # ---- vLLM ----

    def vllm(self, path, body):
        if path == "/version":
            return 200, {"version": "0.31.2" if "old" in self.faults else "0.32.0"}
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": self.positions}]}
        if path == "/inference/v1/generate" and self.scale_out:
            return self.vllm_generate(body["token_ids"], body["sampling_params"], compact=True)
        if path == "/inference/v1/generate":
            return 403, {"detail": "Forbidden"}
        if path == "/v1/completions":
            return self.vllm_generate(body["prompt"], body, compact=False)
        if "no_dev_mode" in self.faults:
            return 404, {"detail": "Not Found"}
        if path == "/weight_info":
            return 200, {"weight_version": self.label}
        if path == "/is_paused":
            return 200, {"is_paused": self.paused}
        if path in ("/pause", "/resume"):
            self.paused = path == "/pause"
            return 200, {"status": path[1:] + "d"}
        if path == "/reset_prefix_cache":
            return 200, {"success": True}
        if path == "/update_weight_version":
            if body["new_version"].startswith("loading"):
                self.old_label = self.label
            self.label = body["new_version"]
            return 200, {"success": True, "new_version": self.label}
        if path == "/collective_rpc" and body["method"] == "reload_weights":
            if not self.paused:
                return 500, {"error": {"message": "weights change while requests run"}}
            done = self.reload(body["kwargs"]["weights_path"])
            return (200, {"results": [None]}) if done else (500, {"error": {"message": "half-way"}})
        return 404, {"detail": "Not Found"}

    def vllm_generate(self, tokens, asked, compact):
        if self.paused:
            return 503, {"error": {"message": "paused"}}
        answer = {"request_id": "r", "model": "m"}
        choice = {"index": 0, "finish_reason": "length"}
        if compact:
            choice["weight_versions"] = [{"version": self.named(), "start": 0, "end": 1}]
        if asked.get("temperature", 1) > 2:
            return 400, {"error": {"message": f"temperature must be in [0, 2], got {asked['temperature']}."}}
        top, given = asked.get("prompt_logprobs"), asked.get("prompt_logprob_token_ids")
        if given is not None and not self.per_position:
            return 400, {"error": {"message": "prompt_logprob_token_ids needs the V2 model runner"}}
        if top is not None:
            if self.widest >= 0 and (top < 0 or top > self.widest):
                return 400, {"error": {"message": f"Requested prompt logprobs of {top}, which is greater than max allowed: {self.widest}"}}
            first = asked.get("prompt_logprob_start", 0) + 1
            rows = self.scores(tokens, 1, 4096 if top < 0 else top)
            scores = [None]
            for (token, value), best, _ in rows:
                ranks = {one: rank for rank, (one, _) in enumerate(best, 1)}
                row = {str(token): {"logprob": value, "rank": ranks.get(token, len(best) + 9), "decoded_token": None}}
                for one, value in best:
                    row[str(one)] = {"logprob": value, "rank": ranks[one], "decoded_token": None}
                scores.append(row)
            (answer if compact else choice)["prompt_logprobs"] = scores
            if given:
                at_ids = [values for _, _, values in self.scores(tokens, first, 0, given)]
                answer["prompt_token_id_logprobs"] = saved_array(at_ids)
            choice["token_ids"] = [0]
        elif "logprobs" in asked:
            written, choice["finish_reason"] = self.written(
                tokens, asked["logprobs"], asked.get("seed", 0), asked["temperature"], asked["top_p"], asked["top_k"],
                asked["max_tokens"], asked.get("stop", []), asked["ignore_eos"])
            content = []
            for token, value, best in written:
                ranks = {one: rank for rank, (one, _) in enumerate(best, 1)}
                own = {"token_id": token, "logprob": value, "rank": ranks.get(token, len(best) + 1)}
                others = [{"token_id": one, "logprob": v, "rank": ranks[one]} for one, v in best if one != token]
                content.append({**own, "top_logprobs": [own, *others][:asked["logprobs"]]})
            choice["token_ids"] = [token for token, *_ in written]
            choice["logprobs"] = {"content": content}
            answer["cut"] = self.has("cut") if len(tokens) > 2 else False
        answer["choices"] = [choice]
        return 200, answer

    # ---- SGLang ----

    def sglang(self, path, body):
        if path == "/server_info":
            return 200, {"version": "0.5.9" if "old" in self.faults else "0.5.23", "max_req_input_len": self.positions - 6,
                         "enable_deterministic_inference": True}
        if path == "/model_info":
            return 200, {"model_path": "m", "is_generation": True, "weight_version": self.label}
        if path == "/update_weights_from_disk":
            if not self.reload(body["model_path"]):
                return 400, {"success": False, "message": "half-way", "num_paused_requests": 0}
            self.old_label, self.label = self.label, body["weight_version"]
            return 200, {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": 0}
        if path != "/generate":
            return 404, {"detail": "Not Found"}
        tokens, asked, top = body["input_ids"], body["sampling_params"], body["top_logprobs_num"]
        about = {"id": "r", "finish_reason": {"type": "length", "length": 0}, "weight_version": self.named()}
        answer = {"text": "", "output_ids": [], "meta_info": about}
        if asked["max_new_tokens"] == 0:
            first, given = body["logprob_start_len"], body.get("token_ids_logprob")
            rows = self.scores(tokens, first + 1, top, [given] * (len(tokens) - first - 1) if given else ())
            about["input_token_logprobs"] = [[None, tokens[first], None], *([value, one, None] for (one, value), _, _ in rows)]
            about["input_top_logprobs"] = [None, *([[value, one, None] for one, value in best] for _, best, _ in rows)]
            if given:
                about["input_token_ids_logprobs"] = [None, *([[v, one, None] for one, v in zip(given, values)] for _, _, values in rows)]
        else:
            written, reason = self.written(tokens, top, asked["sampling_seed"], asked["temperature"], asked["top_p"], asked["top_k"],
                                           asked["max_new_tokens"], asked["stop"], asked["ignore_eos"])
            about["finish_reason"] = {"type": reason}
            answer["output_ids"] = [token for token, *_ in written]
            about["output_token_logprobs"] = [[value, token, None] for token, value, _ in written]
            about["output_top_logprobs"] = [[[value, one, None] for one, value in best] for _, _, best in written]
            answer["cut"] = self.has("cut") if len(tokens) > 2 else False
        return 200, answer


def saved_array(rows):
    """base64 of what numpy.save writes for float32 [rows, columns]."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    values = struct.pack(f"<{len(rows) * len(rows[0])}f", *sum(rows, []))
    return base64.b64encode(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values).decode()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port_of_serve", type=int)
    parser.add_argument("--shape", choices=("vllm", "sglang"), default="vllm")
    parser.add_argument("--fault", action="append", choices=FAULTS, default=[])
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    stand_in = StandIn(options.port_of_serve, options.shape, {fault: None for fault in options.fault}, port=options.port)
    print(stand_in.url, flush=True)
    threading.Event().wait()
