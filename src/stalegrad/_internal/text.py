"""Numbers as text, the same on screens, in reports and in messages."""


def duration(seconds: float) -> str:
    """Seconds as text: µs, ms, or minutes:seconds.

    >>> duration(2.5e-5), duration(0.25), duration(75), duration(4000)
    ('25 µs', '250.0 ms', '1:15', '1:06:40')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def span(seconds: float) -> str:
    """The same, with tenths of a second below ten: for times that are compared with each other.

    >>> span(0.25), span(1.43), span(9.97), span(75)
    ('250.0 ms', '1.4 s', '0:10', '1:15')
    """
    return f"{seconds:.1f} s" if 1 <= seconds < 9.95 else duration(seconds)


def printable(text: str) -> str:
    r"""Text from a file or another process as a terminal may show it: control characters are written out.

    Escape sequences could otherwise recolour the screen, rename its window or hide what stands before them. Lines and
    tabs stay; so do letters of all languages, but not what turns the direction of writing nor halves of characters.

    >>> printable("\x1b[2Jnothing\tto see\nhere\u202e"), printable("θ naïve 漢")
    ('\\x1b[2Jnothing\tto see\nhere\\u202e', 'θ naïve 漢')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" or c in _SPACES else _written_out(c) for c in text)


_SPACES = "\u00a0\u2007\u202f\u2009\u3000"  # which Python does not count as printable, and which move nothing


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
