-- Whose pages may show a merchant's checkout in a frame.

CREATE TABLE checkout_origins (
    merchant_id TEXT NOT NULL,
    place INTEGER NOT NULL,                        -- in the order in which the merchant wrote them
    origin TEXT NOT NULL,                          -- as a browser names it: https://shop.example
    PRIMARY KEY (merchant_id, place)
) WITHOUT ROWID;
