"""Declarative classes: what is lost of them, and that the cell which made them can be run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .kernels import Kernel

USER = """
class User(Base):
    __tablename__ = "user"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
"""


def test_the_cell_of_a_mapped_class_runs_again_on_its_restored_base(
    kernel_at: Callable[..., Kernel], tmp_path: Path, key: bytes
) -> None:
    place = str(tmp_path / "s")
    kernel = kernel_at()
    kernel.run(
        """
        from sqlalchemy import Column, Integer, Table, create_engine, select
        from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
        class Base(DeclarativeBase): pass
        engine = create_engine("sqlite://")
        plain = Table("plain", Base.metadata, Column("n", Integer))
        """
    )
    kernel.run(USER)
    kernel.run(
        f"""
        Base.metadata.create_all(engine)
        with Session(engine) as session:
            session.add(User(name="first")); session.commit()
        del session
        from prime_ext import state as _state
        _state.save({place!r}, key={key!r}, verify="off")
        """
    )
    fresh = kernel_at()
    fresh.run(
        f"""
        from prime_ext import state as _state
        report = _state.load({place!r}, key={key!r})
        assert report.names["User"].status == "degraded"
        assert "class User(Base)" in report.names["User"].recipe.source
        assert report.names["Base"].status == report.names["plain"].status == "verified"
        assert plain is Base.metadata.tables["plain"]
        """
    )
    fresh.run(USER)
    fresh.run(
        """
        Base.metadata.create_all(engine)
        with Session(engine) as session:
            session.add(User(name="second")); session.commit()
            found = [user.name for user in session.scalars(select(User).order_by(User.id))]
        assert found == ["first", "second"], found
        """
    )


def test_an_engine_that_has_inserted_rows_is_restored(
    kernel_at: Callable[..., Kernel], tmp_path: Path, key: bytes
) -> None:
    place = str(tmp_path / "s")
    kernel = kernel_at(PYTHONHASHSEED="1")
    kernel.run(
        f"""
        from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, select
        engine = create_engine("sqlite://")
        table = Table("t", MetaData(), Column("id", Integer, primary_key=True),
                      Column("name", String))
        table.metadata.create_all(engine)
        with engine.begin() as _connection:
            _connection.execute(table.insert(), [{{"name": "first"}}])
        del _connection
        from prime_ext import state as _state
        _state.save({place!r}, key={key!r}, verify="off")
        """
    )
    fresh = kernel_at(PYTHONHASHSEED="2")
    fresh.run(
        f"""
        from prime_ext import state as _state
        report = _state.load({place!r}, key={key!r})
        assert report.names["engine"].status != "degraded", report.names["engine"]
        with engine.begin() as connection:
            connection.execute(table.insert(), [{{"name": "second"}}])
            names = connection.execute(select(table.c.name)).scalars().all()
        assert names == ["first", "second"]
        """
    )
