-- Reads the request for the key at `at`.
key, asked = KEYS[at], ARGV[at + 1]
if not asked or #asked < 73 then
  return redis.error_reply('ARGUMENT ' .. at + 1 .. ' is too short')
end
retention, id, weight, capacity, ttl, wait, nonce, not_after, ballot, facts =
  read('<dc24I4I4dBc8dd', asked)
facts = string.sub(asked, facts)
