"""The plug-in's side of the protocol: handshake, TLS, the service, the watch
over the host."""

import base64
import datetime
import os
import shutil
import signal
import sqlite3
import sys
import threading
import time
from concurrent import futures

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import store as stores
from decide import Refusal
from fencedstore.v1 import model_pb2 as pb
from fencedstore.v1 import store_pb2 as rpc
from fencedstore.v1 import store_pb2_grpc

PROTOCOL = 1
MAX_MESSAGE = 64 << 20


def main():
    if sys.argv[1:] == ["--version"]:
        print(f"fencedstore-pysqlite {stores.VERSION} (fencedstore plug-in, protocol {PROTOCOL})")
        return 0
    if os.environ.get("FENCEDSTORE_PLUGIN") != "fencedstore.v1":
        print("fencedstore-pysqlite is a fencedstore plug-in: a store that another program starts and talks to.\n"
              "Try it: adaptercheck certify --plugin PATH pysqlite:FILE", file=sys.stderr)
        return 2
    if str(PROTOCOL) not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "").split(","):
        print(f"this plug-in speaks version {PROTOCOL} of the protocol", file=sys.stderr)
    watch_host()
    stop = threading.Event()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=32), options=[
        ("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)])
    store_pb2_grpc.add_StoreServiceServicer_to_server(Service(), server)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("plugin.GRPCController", {
        "Shutdown": grpc.unary_unary_rpc_method_handler(lambda request, context: stop.set() or b"",
                                                        request_deserializer=bytes, response_serializer=bytes)}),))
    key, certificate, der = new_certificate()
    credentials = grpc.ssl_server_credentials([(key, certificate)], root_certificates=os.environ["PLUGIN_CLIENT_CERT"].encode(),
                                              require_client_auth=True)
    path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "plugin")
    server.add_secure_port("unix:" + path, credentials)
    server.start()
    print("|".join(["1", str(PROTOCOL), "unix", path, "grpc", base64.b64encode(der).decode().rstrip("=")]), flush=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop.wait()
    server.stop(1).wait()
    return 0


def watch_host():
    """Ends this process, and its group, when the host is gone: the pipe is at its
    end, or the parent is another."""
    parent = os.getppid()

    def end():
        folder = os.environ.get("FENCEDSTORE_PLUGIN_DIR", "")
        if folder and os.path.dirname(os.path.realpath(__file__)) == os.path.realpath(folder):
            shutil.rmtree(folder, ignore_errors=True)
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(3)

    def pipe():
        while os.read(int(os.environ["FENCEDSTORE_PLUGIN_ALIVE_FD"]), 1):
            pass
        end()

    def poll():
        while os.getppid() == parent:
            time.sleep(0.5)
        end()

    if "FENCEDSTORE_PLUGIN_ALIVE_FD" in os.environ:
        threading.Thread(target=pipe, daemon=True).start()
    threading.Thread(target=poll, daemon=True).start()


def new_certificate():
    """A key and a self-signed certificate for this process; the host takes it
    from the handshake and no other."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
                   .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(minutes=1))
                   .not_valid_after(now + datetime.timedelta(days=3650))
                   .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
                   .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
                   .sign(key, hashes.SHA256()))
    return (key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
            certificate.public_bytes(serialization.Encoding.PEM), certificate.public_bytes(serialization.Encoding.DER))


def failure(e):
    return pb.Failure(code=e.code, field=e.field, message=e.message, alarm=e.alarm)


class Service(store_pb2_grpc.StoreServiceServicer):
    def __init__(self):
        self.lock, self.handles, self.last = threading.Lock(), {}, 0

    def store(self, request):
        with self.lock:
            found = self.handles.get(request.handle)
        if found is None:
            raise Refusal(pb.CODE_CLOSED, "handle", "it is not open")
        return found

    def ask(self, response, call):
        """The response of a read: call's result, or a failure. SQLite's own errors
        say that the store could not be asked."""
        try:
            return response(**call())
        except Refusal as e:
            return response(failure=failure(e))
        except sqlite3.Error as e:
            return response(failure=pb.Failure(code=pb.CODE_NOT_APPLIED, message=str(e)))

    def Open(self, request, context):
        def call():
            opened = stores.open_store(request)
            with self.lock:
                self.last += 1
                self.handles[self.last] = opened
                return {"opened": rpc.Opened(handle=self.last, description=opened.describe())}
        return self.ask(rpc.OpenResponse, call)

    def Apply(self, request, context):
        try:
            code, receipt, observed, field, message, alarm = self.store(request).apply(context, request.admission)
            return rpc.ApplyResponse(code=code, receipt=receipt, observed=observed, field=field, message=message, alarm=alarm)
        except Refusal as e:
            return rpc.ApplyResponse(code=e.code, field=e.field, message=e.message, alarm=e.alarm)
        except Exception as e:  # in doubt it is unknown
            return rpc.ApplyResponse(code=pb.CODE_MUTATION_UNKNOWN, message=f"{type(e).__name__}: {e}")

    def Inspect(self, request, context):
        return self.ask(rpc.InspectResponse, lambda: {"state": self.store(request).inspect(context, request.resource)})

    def Receipt(self, request, context):
        return self.ask(rpc.ReceiptResponse, lambda: {
            "receipt": self.store(request).get_receipt(context, request.resource, request.operation)})

    def Read(self, request, context):
        return self.ask(rpc.ReadResponse, lambda: {"value": self.store(request).read(context, request.resource, request.key)})

    def Quarantined(self, request, context):
        return self.ask(rpc.QuarantinedResponse, lambda: {
            "list": rpc.QuarantineList(records=self.store(request).quarantined(context, request.resource))})

    def Probe(self, request, context):
        return self.ask(rpc.ProbeResponse, lambda: self.store(request).probe(context) or {"suited": rpc.Suited()})

    def Close(self, request, context):
        with self.lock:
            found = self.handles.pop(request.handle, None)
        return self.ask(rpc.CloseResponse, lambda: (found.close() if found else None) or {"closed": rpc.Closed()})
