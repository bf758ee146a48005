"""Origins in the store: of whom, in which order, and replaced as a whole."""

from __future__ import annotations

from payd.store.db import Database
from payd.store.origins import list_origins, origins_of, replace_origins

SHOP = "https://shop.example"
OTHER = "https://a.shop.example:8443"


async def test_origins_are_listed_in_the_order_in_which_they_were_written(realm_db: Database) -> None:
    await realm_db.write(replace_origins, "mrch_1", (SHOP, OTHER))
    assert realm_db.point(list_origins, "mrch_1") == (SHOP, OTHER)
    assert realm_db.point(list_origins, "mrch_2") == ()


async def test_new_ones_take_the_place_of_all_before_and_of_nobody_elses(realm_db: Database) -> None:
    await realm_db.write(replace_origins, "mrch_1", (SHOP, OTHER))
    await realm_db.write(replace_origins, "mrch_2", (SHOP,))
    await realm_db.write(replace_origins, "mrch_1", (OTHER,))
    assert realm_db.point(origins_of, ["mrch_1", "mrch_2", "mrch_3"]) == {
        "mrch_1": (OTHER,),
        "mrch_2": (SHOP,),
    }
    await realm_db.write(replace_origins, "mrch_1", ())
    assert realm_db.point(list_origins, "mrch_1") == ()
    assert realm_db.point(list_origins, "mrch_2") == (SHOP,)
