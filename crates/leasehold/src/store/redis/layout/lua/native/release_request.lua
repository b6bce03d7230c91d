-- Reads the request for the key at `at`.
key, asked = KEYS[at], ARGV[at + 1]
if not asked or #asked ~= 41 then
  return redis.error_reply('ARGUMENT ' .. at + 1 .. ' has a wrong length')
end
retention, id, cooldown, unanswered = read('<dc24dB', asked)
