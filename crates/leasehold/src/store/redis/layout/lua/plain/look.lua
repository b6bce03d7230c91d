-- Returns the value of a plain lock, and its end; changes nothing.
--
-- KEYS  1 the lock's key
-- reply the time; the value, cut to the largest size of one of ours; its end (ms): -2 if there
--       is no key, -1 if it has none
return { redis.call('TIME'), redis.call('GETRANGE', KEYS[1], 0, PLAIN_BYTES - 1),
  redis.call('PEXPIRETIME', KEYS[1]) }
