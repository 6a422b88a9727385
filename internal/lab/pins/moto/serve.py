"""Serves moto: serve.py HOST:PORT one-by-one|threads

Every connection has a thread, so that one on which nothing comes holds nobody
up; one-by-one lets a whole request through at a time, since moto's own threads
lose transactions."""
import io, sys, threading
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app


class OneByOne:
    def __init__(self, app):
        self.app, self.lock = app, threading.Lock()

    def __call__(self, environ, start_response):
        length = environ.get("CONTENT_LENGTH")
        whole = environ.get("wsgi.input_terminated")
        body = environ["wsgi.input"].read(*([] if whole else [int(length or 0)]))
        if not whole and len(body) < int(length or 0):
            raise ConnectionAbortedError("half a request")
        environ["wsgi.input"] = io.BytesIO(body)
        with self.lock:
            answer = self.app(environ, start_response)
            try:
                return [b"".join(answer)]
            finally:
                getattr(answer, "close", lambda: None)()


host, port = sys.argv[1].rsplit(":", 1)
app = DomainDispatcherApplication(create_backend_app)
make_server(host, int(port), OneByOne(app) if sys.argv[2] == "one-by-one" else app, threaded=True,
            request_handler=MotoRequestHandler).serve_forever()
