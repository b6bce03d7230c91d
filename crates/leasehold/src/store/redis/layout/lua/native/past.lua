-- What is remembered of holds that have ended (model/rows.rs), with `history=` alone: a ring of
-- fields of the hash, so that an end writes one hold, however many are kept.
--   p         the ring: its length, how many are in it, the place of the next one (1 byte each)
--   p<place>  (1 byte) when it ended, how (1), its capacity (4), and the hold as it was

-- The fields of a ring, the oldest hold first, or nil if it is damaged.
local function past_fields(ring)
  local length, count, at = string.byte(ring, 1, 3)
  if #ring ~= 3 or length > MAX_HISTORY or count > length or at >= length then return nil end
  local fields = {}
  for back = count, 1, -1 do
    fields[#fields + 1] = 'p' .. string.char((at - back) % length)
  end
  return fields
end
--@history
--@history -- The field for one more, and the ring with that; nil if it is not of our length.
--@history local function next_past(ring)
--@history   if not ring then return 'p\0', string.char(HISTORY, 1, 1 % HISTORY) end
--@history   local length, count, at = string.byte(ring, 1, 3)
--@history   local is_ours = #ring == 3 and length == HISTORY
--@history   if not is_ours or count > length or at >= length then return nil end
--@history   if count < length then count = count + 1 end
--@history   return 'p' .. string.char(at), string.char(length, count, (at + 1) % length)
--@history end
--@history
--@history -- A hold as it is remembered; `hold` is as it was packed.
--@history local function pack_past(ended, state, ending, capacity, hold)
--@history   if state == REVOKED then
--@history     ending = BY_REVOKE
--@history   elseif state == UNCLAIMED and ending == BY_TIME then
--@history     ending = BY_SILENCE
--@history   end
--@history   return struct.pack(PAST, ended, ending, capacity) .. hold
--@history end
