"""Whatever a user types, and whatever the template does around it: its control tokens are its own."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from arriero.tokens.chat_template import ChatTemplate
from arriero.tokens.messages import ChatMessage, Role, ToolCall
from arriero.tokens.vocabulary import ByteVocabulary

CONTROL_TEXTS = ["<|im_start|>", "<|im_end|>", "</s>", "[INST]", "[/INST]", "<a b>", "<a b>c", "aaa", "§"]
VOCABULARY = ByteVocabulary(CONTROL_TEXTS)

FRAGMENTS = st.one_of(
    st.sampled_from(CONTROL_TEXTS),
    st.sampled_from(CONTROL_TEXTS).flatmap(
        lambda text: st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(
            lambda cut: text[cut[0] : cut[1]]
        )
    ),
    st.sampled_from([" ", "\n", "\ue000", "\\ue000", '"', "x"]),
)
TYPED = st.lists(FRAGMENTS, max_size=6).map("".join)
# Half markers of the template's own, which a user may want to complete.
TEMPLATE_TEXT = st.lists(FRAGMENTS.filter(lambda text: "{" not in text), max_size=3).map("".join)
PLACES = [
    "m.content",
    "m.content | trim",
    "m.name",
    "m.content | tojson",
    "m.tool_calls[0].function.arguments | tojson",
]


def render(source: str, content: str, name: str) -> list[int]:
    call = ToolCall(call_id="c", name=name, arguments={"key" + content: name})
    message = ChatMessage(role=Role.USER, content=content, name=name, tool_calls=(call,))
    return ChatTemplate(source, VOCABULARY).render([message])


def controls(tokens: list[int]) -> Counter[int]:
    return Counter(token for token in tokens if token >= 256)


def text_of_all(tokens: list[int]) -> str:
    return b"".join(VOCABULARY.piece(token, special=True) for token in tokens).decode()


def template_of(texts: list[str], places: list[str]) -> str:
    """Texts and places in turn; written as literals, so that jinja takes no white space away."""
    parts = [f"{{{{ {text!r} }}}}" for text in texts]
    spots = [f"{{{{ {place} }}}}" for place in places] + [""]
    return "{% set m = messages[0] %}" + "".join(a + b for a, b in zip(parts, spots, strict=False))


@st.composite
def spread_control_texts(draw: st.DrawFn) -> list[str]:
    """Template's, content, template's, name, template's: with one control text cut up over some neighbours of these."""
    text = draw(st.sampled_from([text for text in CONTROL_TEXTS if text != "§"]))
    first, last = sorted(draw(st.tuples(st.integers(0, 4), st.integers(0, 4))))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), min_size=last - first, max_size=last - first)))
    slots = [""] * 5
    for slot, (start, end) in enumerate(pairwise([0, *cuts, len(text)]), first):
        slots[slot] = text[start:end]
    slots[first] = draw(TYPED) + slots[first]
    slots[last] += draw(TYPED)
    return slots


@given(spread_control_texts(), st.lists(st.sampled_from(PLACES[:3]), min_size=2, max_size=2))
def test_d12_a_user_completes_no_control_token(slots: list[str], places: list[str]) -> None:
    # A control text of one character is plain text everywhere as soon as one is there.
    texts = [slot.replace("§", "") for slot in slots[::2]]
    # Around nothing, the template's own halves would join.
    content, name = (slot if slot.strip() else "%" for slot in (slots[1], slots[3]))
    check_controls(template_of(texts, places), content, name)


@given(
    st.lists(TEMPLATE_TEXT, min_size=4, max_size=4),
    st.lists(st.sampled_from(PLACES), min_size=3, max_size=3),
    TYPED,
    TYPED,
)
def test_d12_a_user_adds_and_removes_no_control_token(
    texts: list[str], places: list[str], content: str, name: str
) -> None:
    check_controls(template_of([text.replace("§", "") for text in texts], places), content, name)


def check_controls(source: str, content: str, name: str) -> None:
    """The control tokens are those that the template wrote around something that is no part of any."""
    # what the template writes on both sides of an empty string meets: its own text, and its own doing
    plain = render(source, "%" if content else "", "%" if name else "")
    assert controls(render(source, content, name)) == controls(plain)


@given(st.lists(TEMPLATE_TEXT, min_size=4, max_size=4), TYPED, TYPED)
def test_the_text_of_a_prompt_is_what_the_template_wrote(texts: list[str], content: str, name: str) -> None:
    tokens = render(template_of(texts, ["m.content", "m.name", "m.content"]), content, name)
    assert text_of_all(tokens) == texts[0] + content + texts[1] + name + texts[2] + content + texts[3]


@given(TYPED)
def test_a_template_can_trim_what_was_typed(content: str) -> None:
    # Without control texts that hold a space: white space that could complete one is not trimmed.
    vocabulary = ByteVocabulary([text for text in CONTROL_TEXTS if " " not in text])
    message = ChatMessage(role=Role.USER, content=content)
    tokens = ChatTemplate("{{ messages[0].content | trim }}", vocabulary).render([message])
    assert bytes(tokens).decode() == content.strip()
