-- What is remembered of holds that have ended (model/rows.rs), with `history=` alone: the field `p`
-- of the hash, with how many there are (1 byte) and, the oldest first, of each its id (24 bytes),
-- weight (4), capacity (4), token, since, when it ended (8 bytes each), how (1), the length of its
-- facts (2) and these.

-- A hold as it is remembered. An end by time is as early as its deadline.
local function pack_past(id, weight, capacity, state, token, since, ended, facts, ending)
  if state == REVOKED then
    ending = BY_REVOKE
  elseif state == UNCLAIMED and ending == BY_TIME then
    ending = BY_SILENCE
  end
  return struct.pack(PAST, id, weight, capacity, token, since, ended, ending, #facts) .. facts
end

-- How many there are in the field, or nil if it is damaged.
local function count_past(field)
  local count = string.byte(field)
  if count and count <= MAX_HISTORY and #field > count * PAST_BYTES then return count end
end

-- The field with one more, at most HISTORY of them, or nil if it is damaged.
local function add_past(field, past)
  local count, from = 0, 2
  if field then
    count = count_past(field)
    if not count then return nil end
  end
  while count >= HISTORY do
    if from + PAST_BYTES - 1 > #field then return nil end
    from = from + PAST_BYTES + struct.unpack('<I2', field, from + PAST_BYTES - 2)
    count = count - 1
  end
  return string.char(count + 1) .. string.sub(field or '', from) .. past
end
