"""A proxy between the trainer and a real server that spoils chosen answers: what a sick server, network or balancer does."""
import http.client
import http.server
import threading
import time


class SpoilingProxy:
    """Listens at 127.0.0.1 on a free port. `spoil(path, number, status, body)` sees every answer to a POST, numbered from 0 per
    path, and gives back what is sent: (status, body), or (status, body, {"length": …, "pause": seconds, "headers": {…}})."""

    def __init__(self, port, spoil=None):
        self.port_behind, self.spoil = port, spoil
        self.asked, self.served = {}, {}  # by path: requests that arrived, answers of the server that were passed on whole
        self.lock = threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.pass_on("GET", None)

            def do_POST(self):
                self.pass_on("POST", self.rfile.read(int(self.headers["Content-Length"])))

            def pass_on(self, method, body):
                with proxy.lock:
                    number = proxy.asked.get(self.path, 0)
                    proxy.asked[self.path] = number + 1
                headers = {name: value for name, value in self.headers.items() if name.lower() in ("content-type", "authorization")}
                try:
                    behind = http.client.HTTPConnection("127.0.0.1", proxy.port_behind, timeout=300)
                    behind.request(method, self.path, body, headers)
                    answer = behind.getresponse()
                    status, data, more = answer.status, answer.read(), {}
                    behind.close()
                except OSError:
                    self.close_connection = True
                    return
                if proxy.spoil and method == "POST":
                    status, data, *rest = proxy.spoil(self.path, number, status, data)
                    more = rest[0] if rest else {}
                time.sleep(more.get("pause", 0))
                try:
                    self.send_response(status)
                    for name, value in more.get("headers", {}).items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(more.get("length", len(data))))
                    self.end_headers()
                    self.wfile.write(data)
                    if more.get("length", len(data)) != len(data):
                        self.close_connection = True
                except OSError:
                    self.close_connection = True

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # clients go away
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()
