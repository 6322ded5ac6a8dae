"""What the offline agent understands: phrases as people type them, and what they mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.models.offline import intents as i
from prime_ext.models.offline.parser import parse

PHRASES: list[tuple[str, i.Intent]] = [
    ("/help", i.Help()),
    ("help", i.Help()),
    ("what can you do?", i.Help()),
    ("/tour", i.Tour()),
    ("/tour 3", i.Tour(3)),
    ("hello", i.Greeting()),
    ("thanks!", i.Thanks()),
    ("load penguins.csv", i.Load("penguins.csv")),
    ("Please load the penguins data", i.Load("penguins")),
    ("can you load data/penguins.csv as df?", i.Load("data/penguins.csv", "df")),
    ("read penguins.csv into a dataframe called p", i.Load("penguins.csv", "p")),
    ("load the csv", i.Load("csv")),
    ("penguins.csv", i.Load("penguins.csv")),
    ("open penguins.parquet", i.Load("penguins.parquet")),
    ("read README.md", i.ReadFile("README.md")),
    ("show me the file notes.txt", i.ReadFile("notes.txt")),
    ("list files", i.ListFiles()),
    ("what files are here?", i.ListFiles()),
    ("which data files do I have", i.ListFiles()),
    ("describe penguins", i.Describe("penguins")),
    ("describe the data", i.Describe()),
    ("summary statistics of penguins", i.Describe("penguins")),
    ("what variables are there?", i.ListVariables()),
    ("what do I have in memory", i.ListVariables()),
    ("list variables", i.ListVariables()),
    ("what is x", i.Inspect("x")),
    ("inspect model", i.Inspect("model")),
    ("show df", i.Inspect("df")),
    ("df", i.Unknown("df")),
    ("df.head()", i.RunCode("df.head()")),
    ("1 + 1", i.RunCode("1 + 1")),
    ("x = 5", i.RunCode("x = 5")),
    ("import numpy as np", i.RunCode("import numpy as np")),
    ("not working", i.Unknown("not working")),
    ("run: print(3)", i.RunCode("print(3)")),
    ("run `df.shape`", i.RunCode("df.shape")),
    ("execute this code: 2**10", i.RunCode("2**10")),
    ("%timeit sum(range(10))", i.RunCode("%timeit sum(range(10))")),
    ("show the first 10 rows", i.Rows(n=10)),
    ("head of penguins", i.Rows(frame="penguins")),
    ("first 3 rows of df", i.Rows(n=3, frame="df")),
    ("plot body_mass_g", i.Plot("body_mass_g")),
    ("plot body mass by species", i.Plot("body mass", "species")),
    ("plot body_mass_g vs flipper_length_mm", i.Plot("body_mass_g", "flipper_length_mm")),
    ("histogram of bill length", i.Plot("bill length", kind="hist")),
    (
        "draw a histogram of body_mass_g in penguins",
        i.Plot("body_mass_g", kind="hist", frame="penguins"),
    ),
    (
        "scatter plot of bill length against bill depth colored by species",
        i.Plot("bill length", "bill depth", "scatter", color="species"),
    ),
    ("scatter x y", i.Plot("x y", kind="scatter")),
    ("bar chart of species", i.Plot("species", kind="bar")),
    ("boxplot of body mass by island", i.Plot("body mass", "island", "box")),
    (
        "plot mean body mass by species",
        i.Aggregate(("mean",), ("body mass",), ("species",), plot=True),
    ),
    (
        "bar chart of mean body mass by species",
        i.Aggregate(("mean",), ("body mass",), ("species",), plot=True),
    ),
    ("plot the distribution of flipper length", i.Plot("flipper length", kind="hist")),
    ("show me a plot of body mass over year", i.Plot("body mass", "year")),
    ("correlation heatmap", i.Correlation(plot=True)),
    ("mean of body_mass_g by species", i.Aggregate(("mean",), ("body_mass_g",), ("species",))),
    ("average body mass per island", i.Aggregate(("mean",), ("body mass",), ("island",))),
    (
        "what is the average body mass for each species?",
        i.Aggregate(("mean",), ("body mass",), ("species",)),
    ),
    ("mean body mass", i.Aggregate(("mean",), ("body mass",))),
    ("what is the max of bill length", i.Aggregate(("max",), ("bill length",))),
    (
        "group by species and take the mean of body mass",
        i.Aggregate(("mean",), ("body mass",), ("species",)),
    ),
    (
        "group penguins by species and compute mean and std of body_mass_g",
        i.Aggregate(("mean", "std"), ("body_mass_g",), ("species",), "penguins"),
    ),
    (
        "mean and median of bill length by species and sex",
        i.Aggregate(("mean", "median"), ("bill length",), ("species", "sex")),
    ),
    ("mean by species", i.Aggregate(("mean",), (), ("species",))),
    ("sum of sales by region", i.Aggregate(("sum",), ("sales",), ("region",))),
    ("how many penguins per species?", i.ValueCounts("species")),
    ("count by island", i.ValueCounts("island")),
    ("value counts of species", i.ValueCounts("species")),
    ("species value counts", i.ValueCounts("species")),
    ("unique values of island", i.Unique("island")),
    ("how many unique species are there", i.Unique("species")),
    ("how many rows are in penguins", i.Inspect("penguins", "shape")),
    ("how many rows", i.Inspect("it", "shape")),
    (
        "filter rows where body_mass_g > 4000",
        i.Filter((i.Condition("body_mass_g", ">", ("4000",)),)),
    ),
    (
        "show rows where species is Adelie and body mass over 4000",
        i.Filter(
            (i.Condition("species", "==", ("Adelie",)), i.Condition("body mass", ">", ("4000",)))
        ),
    ),
    (
        "show penguins where island is Dream",
        i.Filter((i.Condition("island", "==", ("Dream",)),), frame="penguins"),
    ),
    (
        "filter penguins to species == Adelie",
        i.Filter((i.Condition("species", "==", ("Adelie",)),), frame="penguins"),
    ),
    (
        "how many rows have species is Adelie",
        i.Filter((i.Condition("species", "==", ("Adelie",)),), count=True),
    ),
    ("how many rows where sex is missing", i.Filter((i.Condition("sex", "isna"),), count=True)),
    (
        "rows where year between 2007 and 2008",
        i.Filter((i.Condition("year", "between", ("2007", "2008")),)),
    ),
    ("sort by body mass descending", i.Sort(("body mass",), True)),
    ("sort penguins by body_mass_g", i.Sort(("body_mass_g",), frame="penguins")),
    ("top 5 by body mass", i.Top(5, "body mass")),
    ("5 largest bill length", i.Top(5, "bill length")),
    ("top 10 penguins by body_mass_g", i.Top(10, "body_mass_g")),
    ("missing values", i.Missing()),
    ("are there any missing values?", i.Missing()),
    ("how many missing values in sex", i.Missing("sex")),
    ("drop missing values", i.Missing(drop=True)),
    ("fill missing values in sex with the mode", i.FillMissing("sex", "mode")),
    (
        "correlation between body mass and flipper length",
        i.Correlation(("body mass", "flipper length")),
    ),
    ("correlations", i.Correlation()),
    ("correlation matrix of penguins", i.Correlation(frame="penguins")),
    ("insert a markdown cell: # Results", i.InsertCell("# Results", "markdown")),
    ("add a code cell with `x = 1` and run it", i.InsertCell("x = 1", run=True)),
    ("run cell 3", i.RunCell("3")),
    ("rerun the last cell", i.RunCell("last")),
    ("run all cells", i.RunCell("all")),
    ("edit cell 2 to `y = 3`", i.EditCell("2", "y = 3")),
    ("in cell 2 replace `a` with `b`", i.ReplaceInCell("2", "a", "b")),
    ("delete cell 4", i.DeleteCell("4")),
    ("move cell 3 to the top", i.MoveCell("3", "top")),
    ("read the notebook", i.ReadNotebook()),
    ("what is in the notebook", i.ReadNotebook()),
    ("show cell 2", i.ReadNotebook("2")),
    ("explain the error", i.ExplainError()),
    ("why did it fail?", i.ExplainError()),
    ("what went wrong", i.ExplainError()),
    ("what was the exact learning rate we used?", i.Recall("learning rate")),
    ("what did we decide about missing values?", i.Recall("decide missing values")),
    ("search the session for learning rate", i.Recall("learning rate")),
    ("how do I connect a model?", i.ConnectModel()),
    ("are you an AI?", i.About()),
    (
        "train a random forest to predict species",
        i.Unknown("train a random forest to predict species"),
    ),
    ("write a function that computes bmi", i.Unknown("write a function that computes bmi")),
    ("compact the conversation", i.Compact()),
    ("analyse penguins.csv", i.Analyse("penguins.csv")),
    ("explore the data", i.Analyse()),
    ("analyze this", i.Analyse()),
    ("save penguins to out.csv", i.Export("out.csv", "penguins")),
    (
        "add a column ratio = bill_length_mm / bill_depth_mm",
        i.AddColumn("ratio", "bill_length_mm / bill_depth_mm"),
    ),
    ("crosstab of species and island", i.Crosstab("species", "island")),
    ("duplicates", i.Duplicates()),
    ("columns of penguins", i.Inspect("penguins", "columns")),
    ("shape of df", i.Inspect("df", "shape")),
    ("what columns are there", i.Inspect("it", "columns")),
    (
        "what's the correlation of bill length with body mass",
        i.Correlation(("bill length", "body mass")),
    ),
    ("compare body mass across species", i.Plot("body mass", "species")),
    ("search files for penguin", i.SearchFiles("penguin")),
    ("find penguin in files", i.SearchFiles("penguin")),
    ("grep foo", i.SearchFiles("foo")),
    ("explain the last traceback", i.ExplainError()),
    ("list the columns", i.Inspect("it", "columns")),
    ("penguins", i.Unknown("penguins")),
    ("show me the data", i.Inspect("data")),
    ("import the data from data/sales.parquet", i.Load("data/sales.parquet")),
    ("Could you please read in sales_2024.xlsx?", i.Load("sales_2024.xlsx")),
    ("open the file measurements.tsv", i.Load("measurements.tsv")),
    ("show me what's in penguins.csv", i.Load("penguins.csv")),
    ("read the csv file", i.Load("csv")),
    ("load penguins", i.Load("penguins")),
    ("give me an overview of the dataset", i.Analyse()),
    ("what does the data look like?", i.Describe()),
    ("what columns does penguins have?", i.Inspect("penguins", "columns")),
    ("what are the column names", i.Inspect("it", "columns")),
    ("what's the shape of the dataframe", i.Inspect("it", "shape")),
    ("how big is the data?", i.Inspect("it", "shape")),
    ("how many rows does df have", i.Inspect("df", "shape")),
    ("how many columns are there?", i.Inspect("it", "shape")),
    ("show the last 5 rows", i.Rows("tail")),
    ("show me 10 random rows", i.Rows("sample", 10)),
    ("give me a sample of 5 rows", i.Rows("sample")),
    ("show the top 5 rows", i.Rows()),
    ("display penguins", i.Inspect("penguins")),
    ("print x", i.Inspect("x")),
    ("show x", i.Inspect("x")),
    ("what's the value of threshold", i.Inspect("threshold")),
    ("what type is x", i.Inspect("x", "type")),
    ("type of x", i.Inspect("x", "type")),
    ("what is df?", i.Inspect("df")),
    ("make a histogram of body mass", i.Plot("body mass", kind="hist")),
    ("show the distribution of body_mass_g", i.Plot("body_mass_g", kind="hist")),
    ("plot a histogram of flipper length by species", i.Plot("flipper length", "species", "hist")),
    ("plot bill length against bill depth", i.Plot("bill length", "bill depth")),
    ("plot bill_length_mm and bill_depth_mm", i.Plot("bill_depth_mm", "bill_length_mm")),
    (
        "scatter bill_length_mm vs bill_depth_mm colored by species",
        i.Plot("bill_length_mm", "bill_depth_mm", "scatter", color="species"),
    ),
    ("plot body mass over time", i.Plot("body mass", "time")),
    ("draw a bar chart of island", i.Plot("island", kind="bar")),
    ("show a box plot of body mass for each species", i.Plot("body mass", "species", "box")),
    ("line plot of sales over date", i.Plot("sales", "date", "line")),
    (
        "visualize the relationship between flipper length and body mass",
        i.Plot("flipper length", "body mass"),
    ),
    ("how does body mass vary with species?", i.Plot("body mass", "species")),
    ("plot it", i.Plot("it")),
    ("plot the data", i.Plot("data")),
    ("plot penguins", i.Plot("penguins")),
    ("plot sales by month as a line", i.Plot("sales", "month", "line")),
    (
        "average of body_mass_g grouped by species",
        i.Aggregate(("mean",), ("body_mass_g",), ("species",)),
    ),
    ("mean body mass by species", i.Aggregate(("mean",), ("body mass",), ("species",))),
    (
        "what's the mean flipper length per island",
        i.Aggregate(("mean",), ("flipper length",), ("island",)),
    ),
    (
        "compute the median bill length for each sex",
        i.Aggregate(("median",), ("bill length",), ("sex",)),
    ),
    ("what is the total sales per region?", i.Aggregate(("sum",), ("sales",), ("region",))),
    ("sum of revenue", i.Aggregate(("sum",), ("revenue",))),
    ("min and max of body_mass_g", i.Aggregate(("min", "max"), ("body_mass_g",))),
    (
        "standard deviation of bill_length_mm by species",
        i.Aggregate(("std",), ("bill_length_mm",), ("species",)),
    ),
    ("what is the average body mass?", i.Aggregate(("mean",), ("body mass",))),
    ("count species", i.ValueCounts("species")),
    ("count the number of penguins per island", i.ValueCounts("island")),
    ("how many of each species", i.ValueCounts("species")),
    ("how many penguins are there on each island", i.ValueCounts("island")),
    ("how many missing values are there", i.Missing()),
    ("how many nulls per column", i.Missing("column")),
    ("which columns have missing values?", i.Missing()),
    ("check for missing data", i.Missing()),
    ("remove rows with missing values", i.Missing(drop=True)),
    ("dropna", i.Missing(drop=True)),
    ("fill missing body_mass_g with the median", i.FillMissing("body_mass_g", "median")),
    ("fill missing values of sex with 'unknown'", i.FillMissing("sex", "unknown")),
    ("filter body_mass_g > 5000", i.Filter((i.Condition("body_mass_g", ">", ("5000",)),))),
    (
        "find rows where species is Gentoo or Chinstrap",
        i.Filter((i.Condition("species", "isin", ("Gentoo", "Chinstrap")),)),
    ),
    (
        "select all rows with island == Biscoe and year >= 2008",
        i.Filter((i.Condition("island", "==", ("Biscoe",)), i.Condition("year", ">=", ("2008",)))),
    ),
    (
        "keep only rows where sex is not missing as complete",
        i.Filter((i.Condition("sex", "notna"),), name="complete"),
    ),
    (
        "show me the penguins where body mass is between 3000 and 4000",
        i.Filter((i.Condition("body mass", "between", ("3000", "4000")),), frame="penguins"),
    ),
    ("rows where species contains del", i.Filter((i.Condition("species", "contains", ("del",)),))),
    ("sort the data by bill length", i.Sort(("bill length",))),
    ("sort by year then by species", i.Sort(("year", "species"))),
    ("order by body mass descending", i.Sort(("body mass",), True)),
    ("top 10 by flipper length", i.Top(10, "flipper length")),
    ("the 5 rows with the highest body mass", i.Top(5, "body mass")),
    ("which penguin has the highest body mass", i.Top(1, "body mass")),
    ("correlation matrix", i.Correlation()),
    ("show correlations", i.Correlation()),
    (
        "how are body mass and flipper length related?",
        i.Correlation(("body mass", "flipper length")),
    ),
    ("is body mass correlated with flipper length", i.Correlation(("body mass", "flipper length"))),
    ("pivot table of species by island", i.Crosstab("species", "island")),
    ("unique species", i.Unique("species")),
    ("what species are there", i.Unique("species")),
    ("list unique values in island", i.Unique("island")),
    (
        "add a column bill_ratio = bill_length_mm / bill_depth_mm",
        i.AddColumn("bill_ratio", "bill_length_mm / bill_depth_mm"),
    ),
    (
        "create a new column mass_kg as body_mass_g / 1000",
        i.AddColumn("mass_kg", "body_mass_g / 1000"),
    ),
    ("save the data to clean.csv", i.Export("clean.csv")),
    ("export penguins as penguins.parquet", i.Export("penguins.parquet", "penguins")),
    ("explain this error", i.ExplainError()),
    ("what does this error mean?", i.ExplainError()),
    ("what happened?", i.ExplainError()),
    ("why am I getting an error", i.ExplainError()),
    ("run the notebook", i.RunCell("all")),
    ("run the first cell", i.RunCell("first")),
    ("run cell In[3]", i.RunCell("In[3]")),
    ("execute cell 2", i.RunCell("2")),
    ("insert a cell", i.InsertCell("")),
    ("add a markdown cell saying Results so far", i.InsertCell("Results so far", "markdown")),
    ("insert a code cell at the top: import os", i.InsertCell("import os", after="top")),
    ("add a heading Results", i.InsertCell("## Results", "markdown")),
    ("show me cell 3", i.ReadNotebook("3")),
    ("summarise the notebook", i.ReadNotebook()),
    ("what does this notebook do", i.ReadNotebook()),
    ("delete the last cell", i.DeleteCell("last")),
    ("move cell 2 after cell 5", i.MoveCell("2", "5")),
    ("what was the exact threshold", i.Recall("threshold")),
    ("which file did we load", i.Recall("load")),
    ("when did we drop the rows", i.Recall("drop rows")),
    ("list all files", i.ListFiles()),
    ("ls", i.ListFiles()),
    ("ls data", i.ListFiles("data")),
    ("what's in this folder?", i.ListFiles()),
    ("read requirements.txt", i.ReadFile("requirements.txt")),
    ("search files for TODO", i.SearchFiles("TODO")),
    ("what is your name", i.About()),
    ("who are you", i.About()),
    ("what can I do here", i.Help()),
    ("I need help", i.Help()),
    ("use claude", i.ConnectModel()),
    ("how to set an api key", i.ConnectModel()),
    ("can you write a neural network", i.Unknown("can you write a neural network")),
    ("cluster the penguins", i.Unknown("cluster the penguins")),
    ("predict body mass from flipper length", i.Unknown("predict body mass from flipper length")),
    ("translate this to polars", i.Unknown("translate this to polars")),
    ("tell me a joke", i.Unknown("tell me a joke")),
    ("yes", i.Unknown("yes")),
    ("no", i.Unknown("no")),
    ("ok", i.Thanks()),
    ("stop", i.Unknown("stop")),
    ("thanks a lot", i.Thanks()),
    ("y = 3; z = 4", i.RunCode("y = 3; z = 4")),
    ("for i in range(3): print(i)", i.RunCode("for i in range(3): print(i)")),
    (
        "penguins.groupby('species').mean(numeric_only=True)",
        i.RunCode("penguins.groupby('species').mean(numeric_only=True)"),
    ),
    ("x", i.Unknown("x")),
    ("species", i.Unknown("species")),
    ("body mass by species", i.Plot("body mass", "species")),
    ("body_mass_g", i.Unknown("body_mass_g")),
    ("bill_length_mm vs bill_depth_mm", i.Plot("bill_length_mm", "bill_depth_mm")),
    ("describe body mass", i.Describe("body mass")),
    ("describe the species column", i.Describe("species")),
    ("summary of penguins", i.Describe("penguins")),
    ("summarize the data", i.Describe()),
    ("info", i.Describe()),
    ("stats for body mass", i.Describe("body mass")),
    ("df describe", i.Describe("df")),
    ("df head", i.Rows(frame="df")),
    ("head", i.Rows()),
    ("tail 10", i.Rows("tail", 10)),
    ("show first 3", i.Rows(n=3)),
    ("duplicates in penguins", i.Duplicates("penguins")),
    ("any duplicate rows?", i.Duplicates()),
    ("group by species", i.ValueCounts("species")),
    ("group by species, mean of body mass", i.Aggregate(("mean",), ("body mass",), ("species",))),
]


@pytest.mark.parametrize(("text", "expected"), PHRASES, ids=[text for text, _ in PHRASES])
def test_phrase(text: str, expected: i.Intent) -> None:
    assert parse(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "load penguins.csv and plot body mass by species",
            [i.Load("penguins.csv"), i.Plot("body mass", "species")],
        ),
        (
            "load penguins.csv, describe it and plot bill length vs bill depth",
            [i.Load("penguins.csv"), i.Describe(), i.Plot("bill length", "bill depth")],
        ),
        (
            "Load the penguins dataset and show me the first rows.",
            [i.Load("penguins"), i.Rows()],
        ),
        (
            "load a.csv, then count rows where x > 3; list variables",
            [
                i.Load("a.csv"),
                i.Filter((i.Condition("x", ">", ("3",)),), count=True),
                i.ListVariables(),
            ],
        ),
        (
            "group by species and take the mean and std of body mass",
            [i.Aggregate(("mean", "std"), ("body mass",), ("species",))],
        ),
    ],
)
def test_several_requests_in_one_message(text: str, expected: list[i.Intent]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```python\nx = 1\ny = 2\n```", i.RunCode("x = 1\ny = 2")),
        ("run this:\n```\nprint(1)\n```", i.RunCode("print(1)")),
        ("Add a cell with\n```python\nx = 1\n```", i.InsertCell("x = 1")),
        ("insert a code cell and run it:\n```\nx = 1\n```", i.InsertCell("x = 1", run=True)),
        (
            "insert a cell after cell 2:\n```py\nx = 1\n```",
            i.InsertCell("x = 1", after="2"),
        ),
        ("add a markdown cell\n```\n# Hi\n```", i.InsertCell("# Hi", "markdown")),
        ("```markdown\n# Hi\n```", i.InsertCell("# Hi", "markdown")),
        ("replace cell 3 with\n```\nz = 3\n```", i.EditCell("3", "z = 3")),
        ("change the source of cell 9f3a to this\n```\nz\n```", i.EditCell("9f3a", "z")),
    ],
)
def test_fenced_code_goes_where_the_words_say(text: str, expected: i.Intent) -> None:
    assert parse(text) == [expected]


def test_a_question_about_code_is_not_an_order_to_run_it() -> None:
    text = "can you explain this?\n```\nos.remove('x')\n```"
    assert parse(text) == [i.Unknown(text)]


def test_a_pasted_traceback_is_explained() -> None:
    pasted = "Traceback (most recent call last):\n  File ...\nKeyError: 'x'"
    for text in (pasted, f"what is this?\n```\n{pasted}\n```"):
        (intent,) = parse(text)
        assert isinstance(intent, i.ExplainError)
        assert intent.traceback is not None
        assert "KeyError: 'x'" in intent.traceback


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plot a in df", i.Plot("a", frame="df")),
        ("mean of a by b in df", i.Aggregate(("mean",), ("a",), ("b",), "df")),
        ("plot a vs b", i.Plot("a", "b")),
        ("correlation between a and b", i.Correlation(("a", "b"))),
        ("value counts of df.a", i.ValueCounts("a", "df")),
        ("plot df['the x']", i.Plot("the x", frame="df")),
        ("missing values in a", i.Missing("a")),
        ("sort df by a desc", i.Sort(("a",), descending=True, frame="df")),
        ("filter rows where a > 1", i.Filter((i.Condition("a", ">", ("1",)),))),
        ("top 3 by a", i.Top(3, "a")),
        ("describe a", i.Describe("a")),
        ("mean of x, y and z by g", i.Aggregate(("mean",), ("x", "y", "z"), ("g",))),
        ("min, max and mean of x", i.Aggregate(("min", "max", "mean"), ("x",))),
    ],
)
def test_short_names_of_columns(text: str, expected: i.Intent) -> None:
    assert parse(text) == [expected]


def test_courtesies_change_nothing() -> None:
    plain = parse("plot body mass by species")
    for text in (
        "Please plot body mass by species.",
        "could you please plot body mass by species?",
        "Hi, can you plot body mass by species for me, thanks!",
        "ok, now plot body mass by species please",
        "PLOT body mass BY species",
        "  plot   body mass\tby species  ",
        "I'd like to plot body mass by species",
    ):
        assert parse(text) == plain, text


@given(st.text(max_size=400))
def test_any_text_is_parsed(text: str) -> None:
    found = parse(text)

    assert found
    assert found == parse(text)


@given(
    st.lists(
        st.sampled_from(
            [
                "load",
                "plot",
                "mean",
                "by",
                "of",
                "in",
                "the",
                "and",
                "rows",
                "where",
                ">",
                "=",
                "(",
                ")",
                "[",
                "`x`",
                "penguins",
                "species",
                "5",
                "top",
                "sort",
                "not",
                "is",
                "cell",
                "3",
                "run",
                ":",
                "?",
                ".",
                ",",
                ";",
                "insert",
                "with",
                "\n",
            ]
        ),
        max_size=25,
    ).map(" ".join)
)
def test_any_mix_of_known_words_is_parsed(text: str) -> None:
    assert parse(text)
