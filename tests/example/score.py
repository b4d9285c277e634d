"""Scores a text with the installed library, without any package: python3 score.py model.txl 'the text'

Prints the tokens and their surprisal in bits.  The structures are those of txl.h."""
import ctypes as c
import math
import sys


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 1024)]


class Settings(c.Structure):
    _fields_ = [(name, c.c_int) for name in ("tgt_len", "mem_len", "clamp_len")] + [("same_length", c.c_bool)] + [
        (name, c.c_int) for name in ("threads", "memory_type", "compute", "padding", "arithmetic")] + [
        ("reserved", c.c_uint64 * 7)]


class Encoding(c.Structure):
    _fields_ = [(name, c.c_bool) for name in ("raw", "prompt", "skip_unknown", "lookup")] + [
        (name, c.c_void_p) for name in ("symbol", "context", "unknown", "unknown_context")] + [
        ("continues", c.c_bool), ("reserved", c.c_uint64 * 8)]


txl, error = c.CDLL("libtxl.so.0"), Error()
txl.txl_model_symbol.restype = c.c_void_p


def check(status):
    if status:
        sys.exit(error.message.decode())


model, session, settings = c.c_void_p(), c.c_void_p(), Settings()
check(txl.txl_model_open(sys.argv[1].encode(), 0, c.byref(model), c.byref(error)))
txl.txl_model_defaults(model, c.byref(settings))
check(txl.txl_session_new(model, c.byref(settings), c.byref(session), c.byref(error)))
text, n = sys.argv[2].encode(), c.c_size_t()
ids = (c.c_int32 * (len(text) + 9))(txl.txl_model_first_context(model))  # what stands before every text
own = c.cast(c.byref(ids, 4), c.POINTER(c.c_int32))
encoding = Encoding(raw=True)
check(txl.txl_encode(model, c.byref(encoding), text, c.c_size_t(len(text)), own, c.c_size_t(len(text) + 8), c.byref(n),
                     c.byref(error)))
nats = (c.c_float * n.value)()
check(txl.txl_session_score(session, ids, n, own, nats, c.byref(error)))
for i in range(n.value):
    length = c.c_size_t()
    symbol = c.string_at(txl.txl_model_symbol(model, own[i], c.byref(length)), length.value)
    print(f"{symbol.decode()}\t{nats[i] / math.log(2):.3f}")
