#!/usr/bin/env python3
"""Real clients against `routeopd serve`: the openai package and curl, on the laboratory's teacher.

    serve_clients_test.py PROGRAM SOURCE_DIRECTORY

The openai package is that of scripts/clients.sh ($CLIENTS_PYTHON names another Python that has one). Without it, and without
curl, the tests that need them are skipped and say so.
"""
import asyncio
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from serving import Server

try:
    import openai
    MISSING = None
except ModuleNotFoundError:
    found = subprocess.run([pathlib.Path(sys.argv[2]) / "scripts/clients.sh"], text=True, capture_output=True)
    if found.returncode == 0 and "ROUTEOPD_CLIENTS" not in os.environ:
        os.environ["ROUTEOPD_CLIENTS"] = "found"  # an interpreter without the package is not asked a second time
        os.execv(found.stdout.strip(), [found.stdout.strip(), *sys.argv])
    MISSING = (found.stderr.strip().splitlines() or ["no openai package"])[-1]

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
CURL = shutil.which("curl")
KEY = "sk-Xq7.very-secret/9vT"
PROBLEM = "Vera has 6 plums. Then Vera picks 4. How many plums are left?"
PROMPT = f"Problem: {PROBLEM}\nSolution:"
MESSAGES = [{"role": "system", "content": "Add and subtract."}, {"role": "user", "content": PROBLEM}]
CHAT_TEMPLATE = ("{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
                 "{% if add_generation_prompt %}assistant:{% endif %}")
CLOSE = 1e-4  # nats: another order of summing


def setUpModule():
    global server, guarded, reference
    directory = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(directory.cleanup)
    model = pathlib.Path(directory.name) / "teacher"
    shutil.copytree(SOURCE / "lab/teacher", model)
    (model / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    server = Server(PROGRAM, model)
    guarded = Server(PROGRAM, SOURCE / "lab/teacher", "--api-key-env", "ROUTEOPD_TEST_KEY", environment={"ROUTEOPD_TEST_KEY": KEY})
    made = subprocess.run([PROGRAM, "generate", "--model", model, "--temperature", "0", "--max-new", "100", "--quiet"],
                          input=json.dumps({"prompt": PROMPT}) + "\n", text=True, capture_output=True, check=True)
    reference = json.loads(made.stdout)  # what the same model writes without a server
    assert reference["finish"] == "stop" and len(reference["ids"]) > 20, reference


@unittest.skipIf(MISSING, f"skipped: {MISSING}")
class Openai(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120)
        self.addCleanup(self.client.close)

    def complete(self, prompt=PROMPT, **more):
        return self.client.completions.create(**{"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": 100, **more})

    def chat(self, **more):
        return self.client.chat.completions.create(**{"model": "m", "messages": MESSAGES, "temperature": 0, "max_tokens": 60, **more})

    def assertClose(self, one, other):
        self.assertEqual(len(one), len(other))
        for a, b in zip(one, other):
            self.assertAlmostEqual(a, b, delta=CLOSE)


class Completions(Openai):
    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual([model.id for model in models], ["m"])
        self.assertEqual(models[0].object, "model")
        self.assertEqual(models[0].max_model_len, 256)

    def test_text_ids_and_usage_are_those_of_generate(self):
        answer = self.complete(extra_body={"return_token_ids": True})
        choice = answer.choices[0]
        self.assertEqual((answer.object, answer.model, len(answer.choices), choice.index), ("text_completion", "m", 1, 0))
        self.assertEqual(choice.text, reference["text"])
        self.assertEqual(choice.token_ids, reference["ids"])
        self.assertEqual((choice.finish_reason, choice.stop_reason, choice.logprobs), ("stop", None, None))
        self.assertEqual(choice.prompt_token_ids, server.json("/tokenize", {"model": "m", "prompt": PROMPT})["tokens"])
        count = len(choice.prompt_token_ids)
        self.assertEqual((answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens),
                         (count, len(reference["ids"]), count + len(reference["ids"])))
        self.assertEqual(self.complete(prompt=choice.prompt_token_ids).choices[0].text, reference["text"])
        self.assertLess(abs(answer.created - time.time()), 3600)

    def test_several_prompts_keep_their_order(self):
        other = "Problem: Rosa has 28 lemons. Then Rosa splits all and sells 1. How many lemons are left?\nSolution:"
        whole = self.complete(prompt=[PROMPT, other, PROMPT], max_tokens=12)
        self.assertEqual([choice.index for choice in whole.choices], [0, 1, 2])
        apart = [self.complete(prompt=prompt, max_tokens=12).choices[0].text for prompt in (PROMPT, other, PROMPT)]
        self.assertEqual([choice.text for choice in whole.choices], apart)
        self.assertNotEqual(apart[0], apart[1])
        ids = [server.json("/tokenize", {"prompt": prompt})["tokens"] for prompt in (PROMPT, other)]
        self.assertEqual([choice.text for choice in self.complete(prompt=ids, max_tokens=12).choices], apart[:2])
        self.assertEqual(whole.usage.completion_tokens, 36)

    def test_lengths(self):
        five = self.complete(max_tokens=5)
        self.assertEqual((five.choices[0].finish_reason, five.usage.completion_tokens), ("length", 5))
        self.assertEqual(self.complete(max_tokens=None).usage.completion_tokens, 16)  # OpenAI's default
        on = self.complete(max_tokens=60, extra_body={"ignore_eos": True})
        self.assertEqual((on.choices[0].finish_reason, on.usage.completion_tokens), ("length", 60))
        self.assertTrue(on.choices[0].text.startswith(reference["text"]))

    def test_logprobs(self):
        choice = self.complete(logprobs=3).choices[0]
        logprobs = choice.logprobs
        self.assertClose(logprobs.token_logprobs, reference["logprobs"])
        self.assertEqual("".join(logprobs.tokens[:-1]), choice.text)  # the last one is the end of the sequence
        self.assertEqual([choice.text[at:].startswith(token) for at, token in zip(logprobs.text_offset[:-1], logprobs.tokens)],
                         [True] * (len(logprobs.tokens) - 1))
        for token, value, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs):
            self.assertEqual(len(top), 3)
            self.assertEqual(top[token], value)
            self.assertEqual(value, max(top.values()))  # greedy, and equal to the last digit
        self.assertEqual([len(top) for top in self.complete(logprobs=0, max_tokens=3).choices[0].logprobs.top_logprobs], [1] * 3)

    def test_sampled_tokens_have_their_values_too(self):
        logprobs = self.complete(temperature=2, seed=5, logprobs=1, max_tokens=20).choices[0].logprobs
        for token, value, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs):
            self.assertIn(len(top), (1, 2))  # the best one, and the one taken
            self.assertEqual(top[token], value)
        self.assertIn(2, [len(top) for top in logprobs.top_logprobs])

    def test_echo(self):
        echoed = self.complete(echo=True, max_tokens=4).choices[0].text
        self.assertEqual(echoed, PROMPT + self.complete(max_tokens=4).choices[0].text)
        scored = self.complete(echo=True, max_tokens=1, logprobs=1).choices[0]
        alone = self.complete(max_tokens=1, extra_body={"prompt_logprobs": 1, "return_token_ids": True}).choices[0]
        count = len(alone.prompt_token_ids)
        self.assertEqual(len(scored.logprobs.tokens), count + 1)
        self.assertEqual("".join(scored.logprobs.tokens), scored.text)
        self.assertIsNone(scored.logprobs.token_logprobs[0])
        self.assertIsNone(scored.logprobs.top_logprobs[0])
        self.assertEqual(scored.logprobs.token_logprobs[1:-1],
                         [entry[str(token)]["logprob"] for token, entry in zip(alone.prompt_token_ids[1:], alone.prompt_logprobs[1:])])
        nothing = self.complete(echo=True, max_tokens=0, logprobs=1).choices[0]
        self.assertEqual(nothing.text, PROMPT)
        self.assertClose(nothing.logprobs.token_logprobs[1:], scored.logprobs.token_logprobs[1:-1])
        strange = "naïve 🙂 Größe"
        self.assertTrue(self.complete(prompt=strange, echo=True, max_tokens=2).choices[0].text.startswith(strange))

    def test_prompt_logprobs(self):
        entries = self.complete(max_tokens=1, extra_body={"prompt_logprobs": 2}).choices[0].prompt_logprobs
        ids = server.json("/tokenize", {"prompt": PROMPT})["tokens"]
        self.assertEqual(len(entries), len(ids))
        self.assertIsNone(entries[0])
        for token, entry in zip(ids[1:], entries[1:]):
            own = entry[str(token)]
            self.assertEqual(own["decoded_token"], server.json("/detokenize", {"tokens": [token]})["prompt"])
            self.assertEqual(sorted(value["rank"] for value in entry.values()), [1, 2] if own["rank"] <= 2 else [1, 2, own["rank"]])
            ranked = sorted(entry.values(), key=lambda value: value["rank"])
            self.assertEqual([value["logprob"] for value in ranked], sorted((value["logprob"] for value in ranked), reverse=True))

    def test_n_and_seed(self):
        texts = {}
        for seed in (7, 7, 8):
            answer = self.complete(n=4, seed=seed, temperature=1, max_tokens=20)
            self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])
            found = [choice.text for choice in answer.choices]
            self.assertGreater(len(set(found)), 1)
            self.assertEqual(found, texts.setdefault(seed, found))
        self.assertNotEqual(texts[7], texts[8])
        two = self.complete(prompt=[PROMPT, PROMPT.replace("6", "9")], n=2, seed=7, temperature=1, max_tokens=5)
        self.assertEqual([choice.index for choice in two.choices], [0, 1, 2, 3])

    def test_sampling_options(self):
        greedy = self.complete(max_tokens=12).choices[0].text
        self.assertEqual(self.complete(max_tokens=12, temperature=1, extra_body={"top_k": 1}).choices[0].text, greedy)
        self.assertEqual(self.complete(max_tokens=12, temperature=1, top_p=1e-6).choices[0].text, greedy)

    def test_stop(self):
        text = reference["text"]
        for stop in (text[10:13], text[5:14], [text[20:26], "never"]):  # across tokens
            choice = self.complete(stop=stop, extra_body={"return_token_ids": True}).choices[0]
            string = stop if isinstance(stop, str) else stop[0]
            self.assertEqual(choice.text, text[:text.index(string)])
            self.assertEqual((choice.finish_reason, choice.stop_reason), ("stop", string))
            self.assertEqual(choice.token_ids, reference["ids"][:len(choice.token_ids)])
            self.assertLess(len(choice.token_ids), len(reference["ids"]))

    def test_streams(self):
        pieces = list(self.complete(stream=True))
        self.assertEqual("".join(piece.choices[0].text for piece in pieces), reference["text"])
        self.assertEqual([piece.choices[0].finish_reason for piece in pieces], [None] * (len(pieces) - 1) + ["stop"])
        self.assertGreater(len(pieces), 10)
        self.assertEqual(len({piece.id for piece in pieces}), 1)
        self.assertEqual({piece.object for piece in pieces}, {"text_completion"})
        self.assertEqual({piece.usage for piece in pieces}, {None})

    def test_streams_with_usage_ids_and_logprobs(self):
        *pieces, last = list(self.complete(stream=True, logprobs=2, stream_options={"include_usage": True},
                                           extra_body={"return_token_ids": True}))
        whole = self.complete(logprobs=2)
        self.assertEqual(last.choices, [])
        self.assertEqual(last.usage.model_dump(include={"prompt_tokens", "completion_tokens", "total_tokens"}),
                         whole.usage.model_dump(include={"prompt_tokens", "completion_tokens", "total_tokens"}))
        self.assertEqual([token for piece in pieces for token in piece.choices[0].token_ids], reference["ids"])
        self.assertEqual(pieces[0].choices[0].prompt_token_ids, server.json("/tokenize", {"prompt": PROMPT})["tokens"])
        for name in ("tokens", "token_logprobs", "text_offset", "top_logprobs"):
            parts = [value for piece in pieces if piece.choices[0].logprobs for value in getattr(piece.choices[0].logprobs, name)]
            self.assertEqual(parts, getattr(whole.choices[0].logprobs, name), name)

    def test_streams_of_several_choices(self):
        texts = {}
        for piece in self.complete(n=3, seed=7, temperature=1, max_tokens=20, stream=True):
            texts[piece.choices[0].index] = texts.get(piece.choices[0].index, "") + piece.choices[0].text
        whole = self.complete(n=3, seed=7, temperature=1, max_tokens=20)
        self.assertEqual(texts, {choice.index: choice.text for choice in whole.choices})

    def test_a_stream_holds_back_what_may_become_a_stop_string(self):
        stop = reference["text"][5:14]
        pieces = list(self.complete(stop=stop, stream=True))
        self.assertEqual("".join(piece.choices[0].text for piece in pieces), reference["text"][:5])
        self.assertEqual((pieces[-1].choices[0].finish_reason, pieces[-1].choices[0].stop_reason), ("stop", stop))
        held = list(self.complete(stop="\0never", stream=True))
        self.assertEqual("".join(piece.choices[0].text for piece in held), reference["text"])

    def test_a_client_that_leaves_in_the_middle(self):
        for _ in range(3):
            with self.complete(max_tokens=200, stream=True, n=8, temperature=1, extra_body={"ignore_eos": True}) as stream:
                next(iter(stream))
        self.assertEqual(self.complete().choices[0].text, reference["text"])

    def test_many_at_once(self):
        async def ask():
            async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
                return await asyncio.gather(*(client.completions.create(model="m", prompt=PROMPT, temperature=0, max_tokens=100)
                                              for _ in range(24)))
        self.assertEqual({answer.choices[0].text for answer in asyncio.run(ask())}, {reference["text"]})


class Chats(Openai):
    def test_the_template_is_applied(self):
        answer = self.chat(extra_body={"return_token_ids": True})
        choice = answer.choices[0]
        text = "".join(f"{message['role']}: {message['content']}\n" for message in MESSAGES) + "assistant:"
        ids = server.json("/tokenize", {"prompt": text})["tokens"]
        self.assertEqual(answer.prompt_token_ids, ids)
        self.assertEqual(server.json("/tokenize", {"messages": MESSAGES})["tokens"], ids)
        self.assertEqual((answer.object, choice.message.role), ("chat.completion", "assistant"))
        same = self.complete(prompt=ids, max_tokens=60)
        self.assertEqual(choice.message.content, same.choices[0].text)
        self.assertEqual((choice.finish_reason, answer.usage.completion_tokens, answer.usage.prompt_tokens),
                         (same.choices[0].finish_reason, same.usage.completion_tokens, len(ids)))

    def test_parts_and_limits(self):
        parts = [{"role": message["role"], "content": [{"type": "text", "text": message["content"]}]} for message in MESSAGES]
        self.assertEqual(self.chat(messages=parts).choices[0].message.content, self.chat().choices[0].message.content)
        short = self.chat(max_tokens=openai.omit, max_completion_tokens=3)
        self.assertEqual((short.usage.completion_tokens, short.choices[0].finish_reason), (3, "length"))
        self.assertEqual(self.chat(max_tokens=None).choices[0].finish_reason, "stop")  # no limit but the model's positions

    def test_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=2, max_tokens=6).choices[0].logprobs.content
        self.assertEqual("".join(entry.token for entry in content), self.chat(max_tokens=6).choices[0].message.content)
        for entry in content:
            self.assertEqual(bytes(entry.bytes).decode(), entry.token)
            self.assertEqual([top.logprob for top in entry.top_logprobs],
                             sorted((top.logprob for top in entry.top_logprobs), reverse=True))
            self.assertEqual((entry.top_logprobs[0].token, entry.top_logprobs[0].logprob), (entry.token, entry.logprob))
            self.assertEqual(len(entry.top_logprobs), 2)
        self.assertEqual(self.chat(logprobs=True, max_tokens=1).choices[0].logprobs.content[0].top_logprobs, [])

    def test_streams(self):
        whole = self.chat()
        first, *pieces, last = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual((first.object, first.choices[0].delta.role), ("chat.completion.chunk", "assistant"))
        text = (first.choices[0].delta.content or "") + "".join(piece.choices[0].delta.content or "" for piece in pieces)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual([piece.choices[0].finish_reason for piece in pieces if piece.choices[0].finish_reason],
                         [whole.choices[0].finish_reason])
        self.assertEqual((last.choices, last.usage.completion_tokens), ([], whole.usage.completion_tokens))

    def test_openai_puts_a_stream_together(self):
        with self.client.chat.completions.stream(model="m", messages=MESSAGES, temperature=0, max_tokens=60, logprobs=True,
                                                 top_logprobs=1, stream_options={"include_usage": True}) as stream:
            for _ in stream:
                pass
            answer = stream.get_final_completion()
        whole = self.chat(logprobs=True, top_logprobs=1)
        self.assertEqual(answer.choices[0].message.content, whole.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, whole.choices[0].finish_reason)
        self.assertEqual([entry.logprob for entry in answer.choices[0].logprobs.content],
                         [entry.logprob for entry in whole.choices[0].logprobs.content])
        self.assertEqual(answer.usage.total_tokens, whole.usage.total_tokens)


class Errors(Openai):
    def refused(self, kind, call, **more):
        with self.assertRaises(kind) as caught:
            call(**more)
        self.assertIsInstance(caught.exception.body, dict)  # openai takes it out of {"error": …}
        self.assertTrue(caught.exception.body["message"])
        self.assertEqual(caught.exception.body["code"], caught.exception.status_code)
        return caught.exception.body["message"]

    def test_bad_requests(self):
        bad = [{"temperature": -1}, {"top_p": 0}, {"max_tokens": -1}, {"n": 0}, {"prompt": [3, 99999]}, {"prompt": [33] * 300},
               {"prompt": ""}, {"prompt": []}, {"prompt": 5}, {"logprobs": -3}, {"logprobs": 10**6}, {"max_tokens": "many"},
               {"stop": 5}, {"stop": ""}, {"stream_options": {"include_usage": True}}, {"extra_body": {"prompt_logprobs": -2}},
               {"extra_body": {"prompt_logprobs": 1}, "stream": True}, {"max_tokens": 0}, {"extra_body": {"top_k": -2}}]
        for body in bad:
            with self.subTest(body=str(body)[:80]):
                self.refused(openai.BadRequestError, self.complete, **body)
        self.assertEqual(self.complete().choices[0].text, reference["text"])

    def test_bad_chats(self):
        for body in ({"messages": []}, {"messages": "hi"}, {"messages": [{"content": "a"}]}, {"top_logprobs": 2},
                     {"messages": [{"role": "user", "content": 5}]}, {"messages": [{"role": "user", "content": "plum " * 400}]},
                     {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}]}]}):
            with self.subTest(body=str(body)[:80]):
                self.refused(openai.BadRequestError, self.chat, **body)

    def test_unknown_model(self):
        for call in (self.complete, self.chat):
            self.assertIn("another", self.refused(openai.NotFoundError, call, model="another"))
            self.refused(openai.NotFoundError, call, model="another", stream=True)

    def test_keys(self):
        for key, url in (("wrong", guarded.url), (KEY[:-1], guarded.url)):
            with openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0) as client:
                with self.assertRaises(openai.AuthenticationError):
                    client.completions.create(model="m", prompt=PROMPT)
                with self.assertRaises(openai.AuthenticationError):
                    client.models.list()
        with openai.OpenAI(base_url=guarded.url + "/v1", api_key=KEY, max_retries=0) as client:
            self.assertEqual(client.completions.create(model="m", prompt=PROMPT, temperature=0, max_tokens=100).choices[0].text,
                             reference["text"])
            with self.assertRaises(openai.BadRequestError):  # it has no chat template
                client.chat.completions.create(model="m", messages=MESSAGES)
        self.assertNotIn(KEY, guarded.text())


@unittest.skipUnless(CURL, "skipped: no curl")
class Curl(unittest.TestCase):
    BODY = json.dumps({"model": "m", "prompt": PROMPT, "temperature": 0, "max_tokens": 100})

    def curl(self, path, *more, stdin=None, url=None):
        """Status, headers in lower case, body."""
        answer = subprocess.run([CURL, "-sS", "-i", "--max-time", "60", *more, (url or server.url) + path], input=stdin,
                                capture_output=True)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        text = answer.stdout.decode()
        while text.startswith("HTTP/1.1 100"):
            text = text.partition("\r\n\r\n")[2]
        head, _, body = text.partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        return int(first.split()[1]), {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines}, body

    def post(self, *more, path="/v1/completions", body=None, **rest):
        return self.curl(path, "-H", "Content-Type: application/json", *more, "-d", body or self.BODY, **rest)

    def test_plain_gets(self):
        self.assertEqual(self.curl("/health")[0], 200)
        self.assertIn("version", json.loads(self.curl("/version")[2]))
        self.assertEqual(json.loads(self.curl("/v1/models")[2])["data"][0]["id"], "m")
        status, headers, text = self.curl("/metrics")
        self.assertEqual((status, headers["content-type"].split(";")[0]), (200, "text/plain"))
        self.assertIn("# TYPE", text)

    def test_every_way_to_send_a_body(self):
        ways = [(), ("-0",), ("-H", "Transfer-Encoding: chunked"), ("-H", "Expect: 100-continue"), ("--compressed",),
                ("-H", "Connection: close"), ("-H", "Authorization: Bearer "), ("-H", "Content-Type: application/json; charset=utf-8")]
        for way in ways:
            with self.subTest(way=way):
                status, headers, body = self.post(*way)
                self.assertEqual(status, 200, body)
                self.assertEqual(json.loads(body)["choices"][0]["text"], reference["text"])
                self.assertEqual(headers["content-type"].split(";")[0], "application/json")

    def test_a_connection_is_kept(self):
        answer = subprocess.run([CURL, "-sS", "-w", "%{num_connects}\n", "-o", os.devnull, server.url + "/health", "-o", os.devnull,
                                 server.url + "/v1/models"], text=True, capture_output=True, check=True)
        self.assertEqual(answer.stdout.split(), ["1", "0"])

    def test_a_stream(self):
        body = json.dumps({**json.loads(self.BODY), "stream": True})
        for way in ((), ("-N",), ("-0",)):
            status, headers, text = self.post(*way, body=body)
            self.assertEqual((status, headers["content-type"].split(";")[0]), (200, "text/event-stream"))
            events = text.split("\n\n")
            self.assertEqual((events[-2:]), ["data: [DONE]", ""])
            pieces = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
            self.assertEqual("".join(piece["choices"][0]["text"] for piece in pieces), reference["text"])

    def test_errors(self):
        for body in ("{not json", "[1]", '"text"', '{"model":"m","prompt":"a","max_tokens":1', "\xff", '{"prompt":' + "[" * 2000 + "]" * 2000 + "}"):
            with self.subTest(body=body[:20]):
                status, _, text = self.post(body=body)
                self.assertEqual(status, 400, text)
                json.loads(text)
        self.assertEqual(self.post(path="/v1/nothing")[0], 404)
        self.assertEqual(self.curl("/v1/completions")[0], 405)
        self.assertEqual(self.curl("/health", "-X", "DELETE")[0], 405)
        self.assertEqual(self.post()[0], 200)

    def test_tokens(self):
        def tokens(path, **body):
            return json.loads(self.post(path=path, body=json.dumps({"model": "m", **body}))[2])
        answer = tokens("/tokenize", prompt=PROMPT, return_token_strs=True)
        self.assertEqual((answer["count"], answer["max_model_len"]), (len(answer["tokens"]), 256))
        self.assertEqual(len(answer["token_strs"]), answer["count"])
        self.assertEqual(tokens("/detokenize", tokens=answer["tokens"]), {"prompt": PROMPT})
        strange = "naïve 🙂 Größe\n\t"
        self.assertEqual(tokens("/detokenize", tokens=tokens("/tokenize", prompt=strange)["tokens"])["prompt"], strange)
        self.assertEqual(self.post(path="/tokenize", body='{"model":"another","prompt":"a"}')[0], 404)
        self.assertEqual(self.post(path="/detokenize", body='{"tokens":[-1]}')[0], 400)

    def test_a_key_is_needed_for_the_model_alone(self):
        self.assertEqual(self.curl("/health", url=guarded.url)[0], 200)
        self.assertEqual(self.curl("/v1/models", url=guarded.url)[0], 401)
        self.assertEqual(self.post(url=guarded.url)[0], 401)
        status, _, body = self.post("-H", f"Authorization: Bearer {KEY}", url=guarded.url)
        self.assertEqual((status, json.loads(body)["choices"][0]["text"]), (200, reference["text"]))


if __name__ == "__main__":
    unittest.main()
