"""The laws as a pure function: what becomes of a mutation at a resource whose
fence is state and whose receipt for the operation is prior. It is what
docs/plugin-protocol.md says under "Deciding", rule by rule."""

from fencedstore.v1 import model_pb2 as pb

MAX_TOKEN = 2**63 - 1
MAX_SEGMENT = 2**62


class Refusal(Exception):
    """An answer that changes nothing."""

    def __init__(self, code, field="", message="", alarm=False):
        super().__init__(message)
        self.code, self.field, self.message, self.alarm = code, field, message, alarm


def empty():
    return pb.FenceState()


def echoes(receipt, m):
    return (receipt.operation == m.operation and receipt.payload == m.payload and receipt.fence == m.fence
            and receipt.segment == m.segment and receipt.grant == m.grant)


def is_claim(m):
    return m.segment == 1 and m.operation == "fencedstore.claim:sha256:" + m.grant.hex()


def decide(state, prior, m):
    """Returns (code, next state, field, message, alarm)."""
    regressed = prior is not None and (prior.fence > state.highest
                                       or prior.fence == state.highest and prior.segment > state.segment)
    if state.highest == 0 and not regressed and m.HasField("seed"):
        state = m.seed
    if m.fence < state.highest:
        return pb.CODE_STALE_OWNER, state, "", "a newer owner has written; stop, and do not send this grant again", regressed
    if regressed:
        return pb.CODE_FENCE_REGRESSION, state, "fence", "a receipt is above the stored fence: state was lost or restored", True
    if m.fence == state.highest and m.grant != state.grant:
        return pb.CODE_FENCE_REGRESSION, state, "grant", "this fence token was issued twice, to two grants", True
    if m.fence == state.highest and m.root != state.root:
        return pb.CODE_ROOT_MISMATCH, state, "operation root", "the fence belongs to another job", False
    last = state.segment if m.fence == state.highest else 0
    if m.segment > last + 1:
        return pb.CODE_SEGMENT_SKIPPED, state, "segment", "not the next segment under this fence", False
    if m.segment <= last:
        if prior is not None and echoes(prior, m):
            return pb.CODE_REPLAYED, state, "", "", False
        if is_claim(m):
            return pb.CODE_NOT_APPLIED, state, "operation", "the fence is this grant's already; a claim would change nothing", False
        return pb.CODE_QUARANTINED, state, "segment", "the segment was accepted with another operation or payload", False
    if prior is not None and prior.payload == m.payload:
        return pb.CODE_ALREADY_APPLIED, state, "operation", "the operation has its receipt; reuse its result", False
    if prior is not None:
        return pb.CODE_QUARANTINED, state, "operation", "the operation was accepted with another payload", False
    after = pb.FenceState(highest=m.fence, grant=m.grant, root=m.root, segment=m.segment,
                          policy_generation=state.policy_generation, trust_generation=state.trust_generation)
    if m.fence > state.highest:
        after.policy_generation = max(after.policy_generation, m.policy_generation)
        after.trust_generation = max(after.trust_generation, m.trust_generation)
    return pb.CODE_ACCEPTED, after, "", "", False


def parse_put(body):
    if len(body) < 8:
        raise Refusal(pb.CODE_INVALID, "effect", "kv.put.v1 is too short")
    n = int.from_bytes(body[:8], "big")
    if n > len(body) - 8:
        raise Refusal(pb.CODE_INVALID, "effect", "kv.put.v1 is shorter than the key length it names")
    return body[8:8 + n], body[8 + n:]


def parse_resolve(body):
    if len(body) < 48:
        raise Refusal(pb.CODE_INVALID, "effect", "quarantine.resolve.v1 is too short")
    return (int.from_bytes(body[:8], "big"), int.from_bytes(body[8:16], "big"), body[16:48], body[48:].decode())
