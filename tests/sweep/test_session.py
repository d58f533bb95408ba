from accelbench.sweep.session import MAX_LIBRARY_OUTPUT, shown_output


def test_what_libraries_print_is_shown_without_escapes_and_of_a_long_output_the_end():
    assert shown_output("\x1b[31mred\x1b[0m \x1b[2J[bold]x[/]\u202e").plain == r"red [bold]x[/]\u202e"
    shown = shown_output("x" * 10**6 + "the end").plain
    assert len(shown) == MAX_LIBRARY_OUTPUT
    assert shown.startswith("…x")
    assert shown.endswith("xthe end")
