"""What the offline agent does: which calls it makes, and what it says of what came of them."""

from __future__ import annotations

import pytest

from prime_ext.agent.prompts import attachment_block
from tests.offline.test_tracebacks import KEY_ERROR
from tests.offline.world import World

NAME_ERROR = """\
---------------------------------------------------------------------------
NameError                                 Traceback (most recent call last)
Cell In[3], line 1
----> 1 pengins.head()

NameError: name 'pengins' is not defined"""


async def test_a_file_is_found_loaded_and_described(world: World) -> None:
    world.loads_penguins("[344 rows x 8 columns]")
    said = await world.ask("load penguins.csv")

    assert world.sources == [
        'import pandas as pd\n\npenguins = pd.read_csv("penguins.csv")\npenguins'
    ]
    assert world.names.index("insert_cell") < world.names.index("run_cell")
    assert "344 rows, 8 columns" in said
    assert "`examples/penguins.csv`" in said


@pytest.mark.parametrize("wanted", ["the penguins data", "penguins", "the csv", "pengins.csv"])
async def test_a_file_is_found_by_less_than_its_name(world: World, wanted: str) -> None:
    world.loads_penguins()
    said = await world.ask(f"load {wanted}")

    if wanted == "pengins.csv":  # a slip is shown, never guessed away
        assert world.sources == []
        assert "`examples/penguins.csv`" in said
    else:
        assert len(world.sources) == 1


async def test_a_file_in_a_folder_beside_the_notebook(world: World) -> None:
    world.folders["examples"] = "examples, 2 entries:\ndata/\ntour.ipynb  2 kB  2026-01-05 10:00"
    world.folders["examples/data"] = (
        "examples/data, 1 entries:\nQ1 sales.parquet  1 MB  2026-01-05 10:00"
    )
    world.on_run = lambda _: (
        world.variables.update(q1_sales=("pandas.DataFrame", "")),
        ("", False),
    )[1]
    await world.ask("load q1 sales.parquet")

    assert world.sources[0].endswith(
        'q1_sales = pd.read_parquet("data/Q1 sales.parquet")\nq1_sales'
    )


@pytest.mark.parametrize("path", ["examples/penguins.csv", "./penguins.csv", "penguins.csv"])
async def test_a_path_may_be_from_the_root_or_from_the_notebook(world: World, path: str) -> None:
    world.loads_penguins()
    await world.ask(f"load {path}")

    assert 'pd.read_csv("penguins.csv")' in world.sources[0]


async def test_a_file_above_the_notebook(world: World) -> None:
    world.folders[""] = "the server's root, 2 entries:\nexamples/\nall.csv  1 kB  2026-01-05 10:00"
    world.loads_penguins()
    await world.ask("load all.csv as penguins")

    assert 'penguins = pd.read_csv("../all.csv")' in world.sources[0]


async def test_an_address_is_left_to_pandas(world: World) -> None:
    world.loads_penguins()
    await world.ask("load https://example.org/data/penguins.csv")

    assert 'penguins = pd.read_csv("https://example.org/data/penguins.csv")' in world.sources[0]
    assert "list_files" not in world.names


async def test_nothing_is_overwritten_by_loading(world: World) -> None:
    world.variables["penguins"] = ("int", "int")
    world.on_run = lambda _: (
        world.variables.update(penguins_2=world.variables["penguins"]),
        ("", False),
    )[1]
    await world.ask("load penguins.csv")

    assert "penguins_2 = pd.read_csv" in world.sources[0]


async def test_loading_again_reads_into_the_same_variable(world: World) -> None:
    world.loads_penguins()
    await world.ask("load penguins.csv")
    await world.ask("load penguins.csv")

    assert world.sources[0] == world.sources[1]


async def test_a_failed_run_is_told_by_its_facts_and_not_tried_again(world: World) -> None:
    world.add_penguins()
    world.on_run = lambda _: (NAME_ERROR, True)
    said = await world.ask("plot body mass by species")

    assert world.names.count("run_cell") == 1
    assert "**NameError**: name 'pengins' is not defined" in said
    assert "`In[3]`, line 1" in said
    assert "`pengins.head()`" in said
    assert "Names near it: `penguins`" in said


async def test_a_declined_call_ends_the_turn(world: World) -> None:
    world.add_penguins()
    world.declined = {"insert_cell"}
    said = await world.ask("plot body mass by species and describe it")

    assert world.names.count("insert_cell") == 1
    assert "You declined that" in said
    assert "left out the rest" in said


async def test_a_figure_by_the_types_of_the_columns(world: World) -> None:
    world.add_penguins()
    said = await world.ask("plot body mass by species")

    assert 'penguins.boxplot(column="body_mass_g", by="species"' in world.sources[0]
    assert "`body_mass_g`" in said
    await world.ask("plot bill length vs bill depth colored by species")
    assert 'groupby("species")["bill_length_mm"].plot(style="o"' in world.sources[1]
    await world.ask("histogram of it")  # "it" is the frame: all of its numbers are drawn
    assert "penguins.hist(" in world.sources[2]


async def test_several_requests_in_one_message_share_what_is_known(world: World) -> None:
    world.loads_penguins("output 42")
    said = await world.ask("load penguins.csv, then plot body mass by species; count by island")

    assert len(world.sources) == 3
    assert world.sources[2] == 'penguins["island"].value_counts(dropna=False)'
    assert "344 rows" in "\n".join(world.texts)
    assert "output 42" in said


async def test_analyse_does_all_of_a_first_look(world: World) -> None:
    world.loads_penguins()
    said = await world.ask("analyse penguins.csv")

    kinds = ("read_csv", "describe(", "isna().sum()", "plt.show()")
    assert len(world.sources) == len(kinds)
    assert all(kind in source for kind, source in zip(kinds, world.sources, strict=True))
    assert "| `sex` | `str` | 11 |" in said


async def test_it_means_the_frame_used_last(world: World) -> None:
    world.add_penguins()
    sales = "pandas.DataFrame, shape (3, 1)\n  'region': str, 0 missing"
    world.variables["sales"] = ("pandas.DataFrame", sales)

    await world.ask("show the first rows of sales")
    await world.ask("describe it")
    assert world.sources[-1] == 'sales.describe(include="all")'

    await world.ask("show the last 3 rows of penguins")
    await world.ask("how many missing values are there in it?")
    assert world.sources[-1] == "penguins.isna().sum()"

    # A column decides, whatever was used last.
    await world.ask("value counts of region")
    assert world.sources[-1] == 'sales["region"].value_counts(dropna=False)'


async def test_a_word_that_fits_two_columns_is_asked_about(world: World) -> None:
    world.add_penguins()
    said = await world.ask("mean of bill by species")

    assert world.sources == []
    assert "`bill_length_mm`" in said
    assert "`bill_depth_mm`" in said


async def test_the_answer_to_a_question_completes_the_request(world: World) -> None:
    world.add_penguins()
    await world.ask("mean of bill by species")
    said = await world.ask("bill_depth_mm")

    assert world.sources == ['penguins.groupby("species")["bill_depth_mm"].mean()']
    assert "The mean of `bill_depth_mm` by `species`" in said


async def test_something_else_instead_of_an_answer_is_a_new_request(world: World) -> None:
    world.add_penguins()
    await world.ask("mean of bill by species")
    await world.ask("plot sex")

    assert "value_counts" in world.sources[0]


async def test_a_word_alone_is_a_variable_or_a_column(world: World) -> None:
    world.add_penguins()
    assert "| `sex` | `str` | 11 |" in await world.ask("penguins")
    await world.ask("body_mass_g")
    assert world.sources == ['penguins["body_mass_g"].describe()']
    assert "do not understand" in await world.ask("blimey")


async def test_what_was_asks_the_record_first_and_then_the_data(world: World) -> None:
    world.add_penguins()
    await world.ask("what was the mean body mass by species?")

    assert "session_search" in world.names
    assert world.sources == ['penguins.groupby("species")["body_mass_g"].mean()']
    assert "has nothing about" in await world.ask("what was the wifi password?")


async def test_an_error_about_permissions_is_not_a_refusal_by_the_user(world: World) -> None:
    world.add_penguins()
    world.on_run = lambda _: ("PermissionError: [Errno 13] Permission denied: 'x'", True)
    said = await world.ask("save penguins to x.csv")

    assert "declined" not in said
    assert "PermissionError" in said


async def test_a_column_that_is_not_there_is_named_with_its_neighbours(world: World) -> None:
    world.add_penguins()
    said = await world.ask("plot flipper_lenght_mm")

    assert world.sources == []
    assert "`flipper_length_mm`" in said


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("mean of species", "holds `str`"),
        ("filter rows where body mass > heavy", "“heavy” is none"),
        ("correlation between species and body mass", "takes two numbers"),
        ("fill missing values in sex with the mean", "the mode works"),
    ],
)
async def test_what_the_types_forbid_is_not_tried(world: World, text: str, because: str) -> None:
    world.add_penguins()
    said = await world.ask(text)

    assert because in said
    assert world.sources == []


async def test_frames_of_other_libraries_are_not_given_pandas_code(world: World) -> None:
    world.variables["prices"] = ("polars.DataFrame", "polars.DataFrame, shape (3, 2)")
    said = await world.ask("describe prices")

    assert world.sources == []
    assert "polars.DataFrame" in said
    assert "pandas code only" in await world.ask("plot a in prices")
    assert world.sources == []


async def test_code_is_run_as_it_was_written(world: World) -> None:
    world.on_run = lambda source: (f"ran {source!r}", False)
    said = await world.ask("```python\nx = 1\nprint(x)\n```")

    assert world.calls == [("run_code", {"code": "x = 1\nprint(x)"})]
    assert "ran 'x = 1\\nprint(x)'" in said


async def test_cells_are_found_by_position_count_and_id(world: World) -> None:
    world.add_cell("# Title", "markdown")
    world.add_cell("x = 1", execution_count=7)
    world.add_cell("```\n[c001] cell 1 of 9, code\n```")

    for reference in ("run cell 2", "run In[7]", "run cell c002"):
        await world.ask(reference)
        assert world.calls[-1] == ("run_cell", {"cell_id": "c002"}), reference
    assert "nothing to run" in await world.ask("run cell 1")
    assert "cells 1 to 3" in await world.ask("run cell 9")
    await world.ask("delete the last cell")
    assert world.calls[-1] == ("delete_cell", {"cell_id": "c003"})


async def test_far_cells_of_a_long_notebook_are_found(world: World) -> None:
    world.readable = 4
    for number in range(1, 41):
        world.add_cell(f"x = {number}", execution_count=50 + number)
    world.add_cell("The end", "markdown")

    for reference in ("run cell 33", "run In[83]", "run cell c033"):
        await world.ask(reference)
        assert world.calls[-1] == ("run_cell", {"cell_id": "c033"}), reference
    assert "cells 1 to 41" in await world.ask("run cell 42")
    assert "has 41 cells" in await world.ask("read the notebook")
    await world.ask("run the last cell")
    assert world.calls[-1] == ("run_cell", {"cell_id": "c040"})
    await world.ask("delete the last cell")
    assert world.calls[-1] == ("delete_cell", {"cell_id": "c041"})
    assert "All 40 code cells ran" in await world.ask("run all cells")


async def test_a_piece_of_a_cell_is_replaced(world: World) -> None:
    world.add_cell("alpha = 0.1\nprint(alpha)")
    said = await world.ask('in cell 1 replace "0.1" with "0.2"')

    assert world.calls[-1] == (
        "edit_cell",
        {"cell_id": "c001", "source": "alpha = 0.2\nprint(alpha)"},
    )
    assert "once" in said
    assert "does not contain" in await world.ask('in cell 1 replace "beta" with "gamma"')


async def test_running_all_cells_stops_at_the_first_error(world: World) -> None:
    for source in ("a", "b", "c"):
        world.add_cell(source)
    world.on_run = lambda source: (NAME_ERROR, True) if source == "b" else ("", False)
    said = await world.ask("run all cells")

    assert world.names.count("run_cell") == 2
    assert "1 cells ran before it" in said


async def test_an_error_in_the_notebook_is_explained(world: World) -> None:
    world.add_penguins()
    world.add_cell(
        "penguins['wieght']",
        execution_count=2,
        outputs=[
            {
                "output_type": "error",
                "ename": "KeyError",
                "evalue": "'body_mas_g'",
                "traceback": KEY_ERROR.replace("wieght", "body_mas_g")
                .replace("df[", "penguins[")
                .split("\n"),
            }
        ],
    )
    said = await world.ask("explain the error")

    assert "cell 1" in said
    assert "**KeyError**" in said
    assert "Columns near it: `body_mass_g`" in said


async def test_the_error_of_the_last_run_comes_before_those_of_the_notebook(world: World) -> None:
    world.add_penguins()
    world.on_run = lambda _: (NAME_ERROR, True)
    await world.ask("run: pengins.head()")
    said = await world.ask("why did it fail?")

    assert "read_notebook" not in world.names
    assert "Names near it: `penguins`" in said


@pytest.mark.parametrize("question", ["explain this error", "Fix this error.", "explain @error"])
async def test_an_attached_error_is_explained(world: World, question: str) -> None:
    cell = "[c3] cell 3, code, run as [3], failed\n```\nx\n```"
    text = f"In the message it is called @error.\n{cell}\nIts output:\n{NAME_ERROR}"
    said = await world.ask(question, attachment_block("error", "work.ipynb", text))

    assert "**NameError**" in said


async def test_a_mentioned_variable_is_the_one_that_is_meant(world: World) -> None:
    world.add_penguins()
    text = "In the message it is called @penguins.\npandas.DataFrame"
    attached = attachment_block("variable", "penguins", text)
    await world.ask("describe @penguins", attached)

    assert "inspect_variable" in world.names


async def test_no_error_is_said_plainly(world: World) -> None:
    world.add_cell("x = 1")
    assert "no traceback" in await world.ask("what went wrong?")


async def test_the_record_is_searched_without_finding_the_question(world: World) -> None:
    def search(arguments: dict[str, str]) -> tuple[str, bool]:
        return (
            "Data.\n"
            '<record seq="41" kind="user_message">\nwhat was the exact threshold?\n</record>\n'
            '<record seq="7" kind="assistant_message">\nrun_code code: threshold = 0.35\n</record>',
            False,
        )

    world.answers["session_search"] = search
    world.answers["session_read"] = (
        'Data.\n<record seq="7" kind="assistant_message" ts="x">\nthreshold = 0.35\n</record>',
        False,
    )
    said = await world.ask("what was the exact threshold?")

    assert ("session_read", {"seqs": [7]}) in world.calls
    assert "threshold = 0.35" in said


async def test_what_is_not_understood_gets_requests_that_fit(world: World) -> None:
    world.add_penguins()
    said = await world.ask("train a random forest to predict species")

    assert "I do not understand" in said
    assert "Connect a model" in said
    assert "`plot bill_length_mm by species`" in said
    assert world.sources == []
    # The examples it gives are understood by itself.
    for line in said.splitlines():
        if line.startswith("- `"):
            assert "do not understand" not in await world.ask(line[3:-1])


async def test_help_without_a_kernel_still_helps(world: World) -> None:
    world.answers["list_variables"] = ("The kernel cannot start.", True)
    said = await world.ask("/help")

    assert "load FILE.csv" in said
    assert "`list files`" in said


async def test_a_missing_tool_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.offline.world.TOOLS", ["list_variables"])
    assert "does not offer the tool `run_code`" in await world.ask("run: 1")


async def test_the_same_messages_give_the_same_reply(world: World) -> None:
    world.add_penguins()
    await world.ask("plot body mass by species")
    for end in range(1, len(world.messages), 2):
        first = await world.request(world.messages[:end])
        again = await world.request(world.messages[:end])
        assert first == again
        assert first.content == world.messages[end]["content"]


async def test_cache_marks_do_not_change_the_reply(world: World) -> None:
    world.add_penguins()
    await world.ask("plot body mass by species")
    plain = world.messages[:-1]
    before = await world.request(plain)
    plain[0]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    assert (await world.request(plain)).content == before.content


async def test_a_conversation_changed_behind_its_back_ends_the_turn(world: World) -> None:
    world.add_penguins()
    world.messages = [
        {"role": "user", "content": [{"type": "text", "text": "plot body mass"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "other", "name": "read_file", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "other", "content": "x"}],
        },
    ]
    assert "please ask again" in await world.go_on()


async def test_a_request_goes_on_behind_a_compaction(world: World) -> None:
    world.add_penguins()
    world.messages = [{"role": "user", "content": [{"type": "text", "text": "plot body mass"}]}]
    for _ in range(3):  # variables, columns, the cell
        world.answer(await world.step())
    assert world.names[-1] == "insert_cell"
    await world.compact()
    said = await world.go_on()

    assert world.names.count("insert_cell") == 1
    assert world.calls[-1] == ("run_cell", {"cell_id": "c001"})
    assert "I drew a histogram" in said


@pytest.mark.parametrize("after", range(1, 6))
async def test_loading_is_not_done_twice_whenever_it_is_compacted(world: World, after: int) -> None:
    world.loads_penguins()
    world.messages = [
        {"role": "user", "content": [{"type": "text", "text": "load penguins.csv and plot sex"}]}
    ]
    for _ in range(after):
        world.answer(await world.step())
    await world.compact()
    await world.go_on()

    assert [source.count("penguins = pd.read_csv") for source in world.sources] == [1, 0]
    assert world.names.count("run_cell") == 2


async def test_a_question_behind_a_compaction_is_a_new_one(world: World) -> None:
    world.add_penguins()
    await world.ask("plot body mass")
    summary = await world.compact()
    said = await world.ask("mean of body mass by species")

    assert "plot body mass" in summary
    assert "The mean of `body_mass_g` by `species`" in said


async def test_any_first_message_is_answered(world: World) -> None:
    for text in (
        "…",
        "\N{PENGUIN}",
        "x" * 50_000,
        "\ud800",
        "`",
        "```\n```",
        "/",
        "<b>",
        "/compact",
    ):
        assert (await world.ask(text)).strip()


DENIED = "Permission denied: examples/tour.ipynb"


@pytest.mark.parametrize(
    "asked",
    ["insert a cell with `x = 1`", "delete cell 1", "run cell 1", "load penguins.csv"],
)
async def test_a_notebook_that_could_not_be_saved_is_told(world: World, asked: str) -> None:
    world.add_cell("x = 1")
    world.loads_penguins("344 rows")
    unsaved = f"The notebook is not saved: {DENIED}"
    world.answers["insert_cell"] = lambda given: (
        f"{world._insert_cell(**given)[0]} {unsaved}",
        False,
    )
    world.answers["delete_cell"] = lambda given: (
        f"{world._delete_cell(**given)[0]} {unsaved}",
        False,
    )
    world.answers["run_cell"] = lambda given: (f"{world._run_cell(**given)[0]}\n{unsaved}", False)
    said = await world.ask(asked)

    assert said.endswith(f"\n\nBut the notebook is not saved: {DENIED}")
    assert said.count(DENIED) == 1


async def test_a_notebook_that_was_saved_later_is_not_told_of(world: World) -> None:
    world.add_cell("x = 1")
    world.answers["delete_cell"] = (f"Deleted. The notebook is not saved: {DENIED}", False)
    said = await world.ask("delete cell 1, then insert a cell with `y = 2`")

    assert world.names[-2:] == ["delete_cell", "insert_cell"]
    assert "not saved" not in said
