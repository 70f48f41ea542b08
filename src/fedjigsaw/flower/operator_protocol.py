"""How operators and a server talk: signed requests, and the names of what may be fetched.

A request is a POST with a JSON body. Its signature is about path, time, nonce, the word of the
server and the hash of the body, so a server can check it before the body arrives. A request counts
once: the server remembers nonces as long as their time is valid, and each start of a server has a
word of its own.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex
from time import time
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedjigsaw.flower.gate import SMALL_REQUEST

PATH = "/fedjigsaw/operator/"
STATUS, START, EVENTS, FILE, STOP = "status", "start", "events", "file", "stop"
VERBS = (STATUS, START, EVENTS, FILE, STOP)
# what a run may leave in its folder and an operator may fetch; nothing else leaves
FILES = ("result.json", "model")
MAX_BODY, MAX_JOB = SMALL_REQUEST, 2**22  # bytes of a request; of one to start a run
TOLERANCE = 60.0  # seconds between the clocks of an operator and the server
PURPOSE = b"fedjigsaw operator 1"
KEY, SIGNATURE = b"fedjigsaw-operator", b"fedjigsaw-signature"
TIME, NONCE, WORD, BODY = (
    *(b"fedjigsaw-time", b"fedjigsaw-nonce"),
    *(b"fedjigsaw-word", b"fedjigsaw-body"),
)
MAX_HEADER = 200
# the HTTP status of what the server answers, besides 200 and those of the doors
BAD, MISSING, STALE, TOO_MANY, BROKEN = 400, 404, 409, 429, 500


@dataclass(frozen=True)
class Signed:
    """The signed head of a request.

    Parameters
    ----------
    key : fingerprint of the operator's public key.
    time : seconds since 1970, as text.
    nonce : a random text that no other request has.
    word : the word of the server that the request is for; empty if the operator does not know it.
    body : SHA-256 of the body.
    signature : of all of this and the path.
    """

    key: str
    time: str
    nonce: str
    word: str
    body: str
    signature: bytes

    @classmethod
    def read(cls, headers: Mapping[bytes, bytes]) -> Self:
        """Read the headers of a request; a ValueError if one is missing or is no such header."""
        found = [headers.get(name, b"") for name in (KEY, TIME, NONCE, WORD, BODY, SIGNATURE)]
        if max(map(len, found)) > MAX_HEADER:
            raise ValueError("a header is too long")
        *texts, signature = found
        key, moment, nonce, word, body = (text.decode("ascii") for text in texts)
        if len(nonce) < 32:
            raise ValueError("the nonce is too short")
        return cls(key, moment, nonce, word, body, b64decode(signature, validate=True))

    def is_by(self, public: Ed25519PublicKey, path: str) -> bool:
        try:
            public.verify(self.signature, self.text(path))
        except InvalidSignature:
            return False
        return True

    def is_recent(self) -> bool:
        digits = self.time.isdigit() and len(self.time) <= 12
        return digits and abs(int(self.time) - time()) <= TOLERANCE

    def fits(self, body: bytes) -> bool:
        return self.body == sha256(body).hexdigest()

    def text(self, path: str) -> bytes:
        """Return what is signed; no part of it can contain a line end."""
        parts = ("POST", path, self.key, self.time, self.nonce, self.word, self.body)
        return b"\n".join([PURPOSE, *(part.encode() for part in parts)])


def sign(private: Ed25519PrivateKey, path: str, body: bytes, word: str) -> dict[str, str]:
    """Return the headers of a request."""
    key = fingerprint(private.public_key())
    digest = sha256(body).hexdigest()
    head = Signed(key, str(int(time())), token_hex(16), word, digest, b"")
    values = {
        KEY: key,
        TIME: head.time,
        NONCE: head.nonce,
        WORD: word,
        BODY: digest,
        SIGNATURE: b64encode(private.sign(head.text(path))).decode(),
    }
    return {name.decode(): value for name, value in values.items()}


def fingerprint(public: Ed25519PublicKey) -> str:
    """Return the name of a key: a hash of it."""
    return sha256(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()
