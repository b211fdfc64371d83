"""C++ in kernel names: mangled symbols and template arguments, whole or cut off.

Profilers leave long symbols mangled, CUTLASS' kernels among them, and the c++filt of binutils
2.40 refuses those that nvcc 13 makes of CUTLASS 3. So this module reads the part of the Itanium
C++ ABI (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling) that kernels' names use.
Where a symbol ends early, or goes on in a way that isn't known here, the rest is dropped and what
was read stays. Nothing here raises, whatever the text.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

# fmt: off
_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long",
    "m": "unsigned long", "x": "long long", "y": "unsigned long long", "f": "float",
    "d": "double", "e": "long double", "n": "__int128", "w": "wchar_t", "z": "...",
    "Dn": "decltype(nullptr)", "Dh": "half", "Ds": "char16_t", "Di": "char32_t",
}
# fmt: on
_STD = {"t": "std", "a": "std::allocator", "s": "std::string", "b": "std::basic_string"}
_AROUND = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile"}
_LITERAL_SUFFIX = {"unsigned int": "u", "long": "l", "unsigned long": "ul"}
_DEEPEST = 120  # names, types and arguments inside each other
_LONGEST = 2_000_000  # characters written; back references could make a symbol explode


@dataclass
class _Symbol:
    """A cursor over a mangled symbol, and the components that later ones refer back to.

    The methods are named after the productions of the grammar. At the end of the text, and after
    `stop`, all of them return what little they have.
    """

    text: str
    at: int = 2  # behind _Z
    seen: list[str] = field(default_factory=list)
    depth: int = 0
    written: int = 0
    const: str = ""  # of the method whose name was read last

    def stop(self) -> str:
        self.at = len(self.text)
        return ""

    def peek(self, what: str) -> bool:
        return self.text.startswith(what, self.at)

    def take(self, what: str) -> bool:
        found = self.peek(what)
        self.at += len(what) if found else 0
        return found

    def match(self, pattern: str) -> re.Match | None:
        found = re.compile(pattern).match(self.text, self.at)
        self.at = found.end() if found else len(self.text)
        return found

    def remember(self, text: str) -> str:
        self.seen.append(text)
        return self.write(text)

    def write(self, text: str) -> str:
        self.written += len(text)
        return text if self.written < _LONGEST else self.stop()

    def nest(self, read: Callable[[], str]) -> str:
        self.depth += 1
        text = read() if self.depth <= _DEEPEST else self.stop()
        self.depth -= 1
        return text

    def until_end(self) -> Iterator[None]:
        """Once for each item of a list that E closes; stops where nothing more can be read."""
        while not self.take("E") and self.at < len(self.text):
            before = self.at
            yield
            if self.at == before:
                self.stop()

    def encoding(self) -> str:
        """A function's name and its parameters; its result type is read and dropped."""
        name, const = self.name(of_function=True), self.const
        if self.at >= len(self.text) or self.peek("E"):
            return name
        types = []
        while self.at < len(self.text) and self.text[self.at] not in "E.@":
            types.append(self.type())
        parameters = types[1:] if name.endswith(">") else types
        return f"{name}({_listed(parameters)}){const}"

    def name(self, of_function: bool = False) -> str:
        return self.nest(lambda: self._name(of_function))

    def _name(self, of_function: bool) -> str:
        if self.take("N"):
            return self.nested_name(of_function)
        if self.take("Z"):
            scope = self.encoding()
            self.take("E")
            entity = "string literal" if self.take("s") else self.name()
            if self.peek("_"):
                self.match(r"_(\d|_\d+_)")
            return f"{scope}::{entity}"
        if self.peek("S") and not self.peek("St"):
            name = self.substitution()
        else:
            name = "std::" + self.unqualified_name() if self.take("St") else self.unqualified_name()
            if self.peek("I"):
                self.remember(name)
        return name + self.template_args() if self.peek("I") else name

    def nested_name(self, of_function: bool) -> str:
        const = " const" if "K" in self.match("[rVK]*[RO]?")[0] else ""
        name = ""
        for _ in self.until_end():
            if self.peek("I"):
                name += self.template_args()
            elif self.peek("S") and not self.peek("St"):
                name = self.substitution()
                continue
            elif self.take("St"):
                name = "std"
                continue
            elif self.peek("T"):
                name = self.template_param()
            else:
                name += ("::" if name else "") + self.unqualified_name()
            if not (of_function and self.peek("E")):
                self.remember(name)
        self.const = const
        return name

    def unqualified_name(self) -> str:
        if self.take("Ul"):
            parameters = [self.type() for _ in self.until_end()]
            number = self.match(r"(\d{0,4})_")
            count = int(number[1] or -1) + 2 if number else 1
            return f"{{lambda({_listed(parameters)})#{count}}}"
        if self.take("Ut"):
            self.match(r"\d*_")
            return "{unnamed}"
        if self.take("cl"):
            return "operator()"
        self.take("L")  # internal linkage
        length = self.match(r"\d{1,5}")
        if not length:
            return ""
        start, self.at = self.at, self.at + int(length[0])
        name = self.text[start : self.at]
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N_") else name

    def template_args(self) -> str:
        self.at += 1  # I
        return f"<{', '.join(arg for _ in self.until_end() if (arg := self.template_arg()))}>"

    def template_arg(self) -> str:
        return self.nest(self._template_arg)

    def _template_arg(self) -> str:
        if self.take("J"):
            return ", ".join(arg for _ in self.until_end() if (arg := self.template_arg()))
        if self.peek("X"):
            return self.stop()  # an expression
        if not self.take("L"):
            return self.type()
        if self.take("_Z"):
            value = self.encoding()
            self.take("E")
            return value
        kind = self.type()
        number = self.match(r"(n?)(\w*?)E")
        if not number:
            return ""
        value = number[1].replace("n", "-") + number[2]
        if kind == "bool":
            return {"0": "false", "1": "true"}.get(value, value)
        plain = kind == "int" or kind in _LITERAL_SUFFIX
        return value + _LITERAL_SUFFIX.get(kind, "") if plain else f"({kind}){value}"

    def substitution(self) -> str:
        self.at += 1  # S
        if self.at < len(self.text) and self.text[self.at] in _STD:
            self.at += 1
            return _STD[self.text[self.at - 1]]
        number = self.match(r"([0-9A-Z]{0,4})_")
        index = int(number[1], 36) + 1 if number and number[1] else 0
        if not number or index >= len(self.seen):
            return self.stop()
        return self.write(self.seen[index])

    def template_param(self) -> str:
        number = self.match(r"T(\d*)_")
        return f"T{number[1]}" if number else ""

    def type(self) -> str:
        return self.nest(self._type)

    def _type(self) -> str:
        here = self.text[self.at : self.at + 2]
        for code in (here, here[:1]):
            if code in _BUILTIN:
                self.at += len(code)
                return _BUILTIN[code]
        if here[:1] in _AROUND:
            self.at += 1
            return self.remember(self.type() + _AROUND[here[:1]])
        if here == "Dp":
            self.at += 2
            return self.remember(self.type() + "...")
        if here[:1] == "T":
            name = self.remember(self.template_param())
            return self.remember(name + self.template_args()) if self.peek("I") else name
        if here[:1] == "A":
            size = self.match(r"A(\d*)_")
            return self.remember(f"{self.type()} [{size[1] if size else ''}]")
        if here[:1] == "F":
            self.at += 1
            types = [self.type() for _ in self.until_end()]
            return self.remember(f"{types[0] if types else ''} ({_listed(types[1:])})")
        if here[:1] == "S" and here != "St":
            name = self.substitution()
            return self.remember(name + self.template_args()) if self.peek("I") else name
        if here[:1] == "N":
            return self.name()
        if here[:1] == "Z" or here == "St" or here[:1].isdigit():
            return self.remember(self.name())
        return self.stop()


def _listed(parameters: list[str]) -> str:
    return ", ".join(p for p in parameters if p != "void")


def demangle(symbol: str) -> str:
    """The readable form of an Itanium-mangled symbol, as far as it can be read."""
    return _Symbol(symbol).encoding()


@dataclass
class Template:
    """A type as a tree: `cute::tuple<cute::C<128>, int>` is a Template with two args."""

    name: str
    args: list["Template"] = field(default_factory=list)

    @property
    def base(self) -> str:
        return self.name.rpartition("::")[2]

    def number(self) -> int | None:
        """The integer that a type such as `cute::C<128>`, or a plain argument, stands for."""
        found = re.fullmatch(r"(-?\d{1,9})[ul]*", (self.args or [self])[-1].name)
        return int(found[1]) if found else None

    def walk(self) -> Iterator["Template"]:
        """This and everything inside it, from left to right."""
        rest = [self]
        while rest:
            node = rest.pop()
            yield node
            rest += reversed(node.args)

    def find(self, *starts: str) -> "Template | None":
        """The leftmost type whose own name begins with one of `starts`."""
        return next((node for node in self.walk() if node.base.startswith(starts)), None)


def template(text: str) -> Template:
    """The tree of a type written out; brackets that a profiler cut off are closed at the end."""
    root = Template("")
    open_, last = [root], None
    for token in re.findall(r"[<>,]|[^<>,]+", text):
        if token == "<":
            if last is None:
                last = Template("")
                open_[-1].args.append(last)
            open_.append(last)
            last = None
        elif token == ">":
            last = open_.pop() if len(open_) > 1 else None
        elif token == ",":
            last = None
        elif token.strip() and last is None:  # else it is behind a bracket, like ::Params
            last = Template(token.strip())
            open_[-1].args.append(last)
    return root
