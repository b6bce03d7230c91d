-- The other values of a record whose only hold is granted now, for the holder's id, weight, ttl,
-- nonce, token and deadline. Straight text and no function: that would cost an acquire 3 %.
local version, last_token, count, used, cursor, change = VERSION, token, 1, held_weight, 0, 0
local bound, running, longest_ttl, upgrading, since = deadline, NEVER, held_ttl, NOBODY, now
