"""What the scripted model understands and says, in English, Chinese and Japanese."""

from __future__ import annotations

import re
from typing import Literal

Language = Literal["en", "zh", "ja"]

ROOMS = {
    "bedroom": ("bedroom", "卧室", "寝室"),
    "kitchen": ("kitchen", "厨房", "キッチン"),
    "living room": ("living room", "客厅", "リビング"),
}
KINDS = {
    "lamp": ("lamp", "light", "灯", "ランプ", "照明"),
    "fan": ("fan", "风扇", "扇風機"),
}
STATUSES = {
    "off": ("off", "关", "消し", "止め", "go to bed", "good night"),
    "on": ("turn on", "switch on", "back on", " on ", "打开", "つけ", "回し"),
}
EVERYTHING = ("everything", "all the", "所有", "全部", "すべて")
TEMPERATURE = ("temperature", "thermostat", "degrees", "warm is", "°c", "温度", "度")
COLD = ("i am cold", "i'm cold", "freezing", "有点冷", "寒い")
SAME = ("the same", "do that", "也", "同じ")
GREETING = ("hello", "hi ", "good morning", "你好", "こんにちは")
LISTING = ("which devices", "what devices", "有哪些", "どんな機器")

NAMES: dict[Language, dict[str, str]] = {
    "en": {"bedroom": "bedroom", "kitchen": "kitchen", "living room": "living room", "lamp": "lamp", "fan": "fan"},
    "zh": {"bedroom": "卧室", "kitchen": "厨房", "living room": "客厅", "lamp": "灯", "fan": "风扇"},
    "ja": {"bedroom": "寝室", "kitchen": "キッチン", "living room": "リビング", "lamp": "ランプ", "fan": "扇風機"},
}
STATES: dict[Language, dict[str, str]] = {
    "en": {"on": "on", "off": "off"},
    "zh": {"on": "打开", "off": "关闭"},
    "ja": {"on": "オン", "off": "オフ"},
}
DEVICE: dict[Language, str] = {"en": "the {room} {kind}", "zh": "{room}的{kind}", "ja": "{room}の{kind}"}
AND: dict[Language, str] = {"en": " and ", "zh": "和", "ja": "と"}

SENTENCES: dict[str, dict[Language, str]] = {
    "switched": {
        "en": "{devices} {verb} now {status}.",
        "zh": "{devices}现在已{status}。",
        "ja": "{devices}を{status}にしました。",
    },
    "already": {
        "en": "{devices} {verb} already {status}.",
        "zh": "{devices}本来就已{status}。",
        "ja": "{devices}はすでに{status}です。",
    },
    "nothing_found": {
        "en": "I could not find any such device in the {room}.",
        "zh": "我在{room}没有找到这样的设备。",
        "ja": "{room}にそのような機器は見つかりませんでした。",
    },
    "listing": {
        "en": "In the {room} there are {devices}.",
        "zh": "{room}里有{devices}。",
        "ja": "{room}には{devices}があります。",
    },
    "temperature": {
        "en": "It is {current} °C in the {room} and the thermostat is set to {target} °C.",
        "zh": "{room}现在是{current}度，恒温器设为{target}度。",
        "ja": "{room}は今{current}度で、設定は{target}度です。",
    },
    "temperature_set": {
        "en": "The thermostat in the {room} is now set to {target} °C.",
        "zh": "{room}的恒温器已设为{target}度。",
        "ja": "{room}の温度を{target}度に設定しました。",
    },
    "scheduled": {
        "en": "{devices} will be turned {status} at {time}.",
        "zh": "{devices}将在{time}{status}。",
        "ja": "{devices}を{time}に{status}にします。",
    },
    "greeting": {
        "en": "Hello {name}, what can I do for you?",
        "zh": "你好{name}，我能帮你做什么？",
        "ja": "{name}さん、こんにちは。何をしましょうか。",
    },
    "refused": {
        "en": "I could not do that: {error}.",
        "zh": "我做不到：{error}。",
        "ja": "できませんでした：{error}。",
    },
    "which_room": {"en": "Which room do you mean?", "zh": "你指的是哪个房间？", "ja": "どの部屋ですか。"},
    "help": {
        "en": "I can switch lamps and fans, set thermostats and schedule devices.",
        "zh": "我可以开关灯和风扇、设置恒温器并安排定时。",
        "ja": "ランプと扇風機の操作、温度の設定、予約ができます。",
    },
}


def language_of(text: str) -> Language:
    """Kana means Japanese, other Han characters Chinese, anything else English."""
    if re.search(r"[\u3040-\u30ff]", text):
        return "ja"
    return "zh" if re.search(r"[\u4e00-\u9fff]", text) else "en"


def mentions(text: str, words: tuple[str, ...]) -> bool:
    """Whether the lower-cased text holds any of the words."""
    return any(word in text for word in words)


def named(text: str, table: dict[str, tuple[str, ...]]) -> str | None:
    """The first key of the table that one of its words in the text names."""
    return next((key for key, words in table.items() if mentions(text, words)), None)


def say(key: str, language: Language, **values: object) -> str:
    """A sentence, with its first letter in upper case."""
    sentence = SENTENCES[key][language].format(**values)
    return sentence[:1].upper() + sentence[1:]


def device_names(devices: list[dict[str, str]], language: Language, *, with_status: bool = False) -> str:
    """The devices as one phrase, in the order given."""
    names = []
    for device in devices:
        words = NAMES[language]
        name = DEVICE[language].format(room=words[device["room"].lower()], kind=words[device["kind"]])
        names.append(f"{name} ({STATES[language][device['status']]})" if with_status else name)
    return AND[language].join(names)
