/*
 * The part of the pool that cooperative scans have, by chunks.
 *
 * Whoever is handed a chunk says so (chunk_hold). A chunk that would be more than cooperation may
 * have takes the place of another: of one that nobody wants, or else of the one that is wanted
 * last. Who wants a chunk is asked of the predictor, which knows all scans, those of bitmaps and
 * indexes too. The buffers of the chunk that leaves are put on the server's list of those to be
 * taken first. So the hand of its clock, which ages the pages of others, moves no more than without
 * us.
 *
 * A chunk that nobody wants stays until its place is needed: the next query may want it. But its
 * usage counts are 0 (chunk_release), and what others need they find there. Of a chunk that leaves
 * the pages stay that others use: their usage count is above 1, to which scans of ours do not raise
 * it.
 *
 * How much cooperation may have: at first a quarter of the pool, as much as stock gives to a table
 * that one scan reads; two chunks more whenever a scan finds one in the pool, one more when one
 * leaves that is wanted; a chunk less whenever others have taken the one that leaves; at most
 * pg_pagecast.cooperation_share.
 *
 * It grows only as far as there are cold pages (take_cold), so that the pages that others use stay:
 * free buffers, and clean pages with a usage count of 0 that no scan wants. Counts sink by one in
 * AGING_NS while such pages are looked for, and sooner until it has its first quarter. So a page
 * that is used more often stays for good.
 *
 * The clock's hand must not be needed: where no usage count is 0, one miss of anybody's has it age
 * the whole pool. So what leaves is as much as comes, what is read now does not leave (its pages
 * would come back from the list), and RESERVE buffers are free for the misses of others.
 *
 * Race: a buffer on the list is like any other, as steering.c says. Its usage count is set to 0
 * before, under the header's lock and only if nobody has pinned it, so that it is taken.
 *
 * All of this is guarded by the lock of cooperation.c. Cost: of a chunk that is read up to LOOKS
 * questions to the predictor, of one that leaves a look at the buffer table for each block, and
 * while cooperation grows COLD_LOOKS looks at headers for each block.
 */
#include "cooperation.h"

#include "miscadmin.h"

/* Chunks compared to find the one that leaves. */
#define LOOKS 32
/* The part of the pool that cooperation may have at first. */
#define FIRST_SHARE 4
/* And in any case, as stock's rings. */
#define LEAST_SHARE 16
/* Buffers that are free for the misses of others, in a pool of which that is a small part. */
#define RESERVE Min(64, NBuffers / 32)
/* Buffers looked at for one that is cold, and how soon their usage counts may sink again: at first,
 * and then so that pages which are read every ten seconds keep theirs. */
#define COLD_LOOKS 10
#define FIRST_AGING_NS UINT64CONST(5000000000)
#define AGING_NS UINT64CONST(60000000000)

int			pagecast_cooperation_share = 90;

static inline ChunkMemory *
memory(void)
{
	return &shared->chunk_memory;
}

static uint64
most_buffers(void)
{
	return (uint64) NBuffers * pagecast_cooperation_share / 100;
}

/* Once, in new shared memory, all of which is 0. */
void
chunk_memory_format(void)
{
	memory()->limit = NBuffers / FIRST_SHARE;
}

/* Whether nobody uses the buffer, which still holds the block, but scans of ours: then its usage
 * count is 0 now. */
static bool
give_up(int buffer, const BufferTag *tag)
{
	BufferDesc *header = GetBufferDescriptor(buffer);
	uint32		state = LockBufHdr(header);
	bool		unused = BUF_STATE_GET_REFCOUNT(state) == 0 && (state & BM_VALID) != 0 && BUF_STATE_GET_USAGECOUNT(state) <= 1 &&
		buffer_tags_equal(&header->tag, tag);

	if (unused)
		state &= ~BUF_USAGECOUNT_MASK;
	UnlockBufHdr(header, state);
	return unused;
}

/* Has a buffer taken first. */
static void
list(BufferDesc *header)
{
	StrategyFreeBuffer(header);
	if (memory()->missing > 0 && --memory()->missing == 0)
		memory()->reserve = header->buf_id;
}

/* Whether others have taken of the reserve: it lies below what is listed for chunks, and what is
 * listed last is taken first. */
static bool
reserve_is_used(void)
{
	return memory()->missing > 0 || GetBufferDescriptor(memory()->reserve)->freeNext == FREENEXT_NOT_IN_LIST;
}

/* Gives up the chunk's buffers that others do not use, and if `at_once` they are taken first; how
 * many. */
static BlockNumber
give_up_chunk(const HeldChunk *chunk, bool at_once)
{
	BlockNumber freed = 0;

	for (BlockNumber i = 0; i < chunk->count; i++)
	{
		BufferTag	tag = tag_of_block(&chunk->locator, MAIN_FORKNUM, chunk->first + i);
		int			buffer = buffer_of_tag(&tag);

		if (buffer < 0 || !give_up(buffer, &tag))
			continue;
		freed++;
		if (at_once)
			list(GetBufferDescriptor(buffer));
	}
	return freed;
}

/* Whether nobody has used the buffer's page of late, and no scan wants it. Its header is read
 * without its lock: a hint. */
static bool
is_cold(const BufferDesc *header, uint32 state, uint64 now)
{
	RelFileLocator locator = tag_locator(&header->tag);

	return BUF_STATE_GET_USAGECOUNT(state) == 0 && header->freeNext == FREENEXT_NOT_IN_LIST &&
		predictor_next_access(predictor, pagecast_relation_name(&locator), header->tag.blockNum, now) == UINT64_MAX;
}

/* Looks at a buffer, and has it taken first if it is cold. Whether it is free now. */
static bool
take_if_cold(int buffer, uint64 now)
{
	BufferDesc *header = GetBufferDescriptor(buffer);
	uint32		state = pg_atomic_read_u32(&header->state);
	BufferTag	tag = header->tag;

	if ((state & BM_TAG_VALID) == 0)
		return true;
	if ((state & (BM_VALID | BM_LOCKED | BM_DIRTY)) != BM_VALID || BUF_STATE_GET_REFCOUNT(state) > 0)
		return false;
	if (is_cold(header, state, now) && give_up(buffer, &tag))
	{
		list(header);
		return true;
	}
	if (memory()->ages && BUF_STATE_GET_USAGECOUNT(state) > 0)
		pg_atomic_compare_exchange_u32(&header->state, &state, state - BUF_USAGECOUNT_ONE);
	return false;
}

/* How soon usage counts may sink again: sooner while cooperation has less than its first part. */
static uint64
aging_interval(void)
{
	return memory()->buffers < NBuffers / FIRST_SHARE ? FIRST_AGING_NS : AGING_NS;
}

/* A new round through the pool, in which usage counts may sink or not. Above the first part they
 * must have been watched for as long: nobody has asked for cold pages before. */
static void
begin_round(uint64 now)
{
	uint64		interval = aging_interval();
	bool		is_due = now >= memory()->aged + interval;

	memory()->ages = is_due && (interval < AGING_NS || now < memory()->asked + interval);
	if (is_due)
		memory()->aged = now;
	memory()->round_found = 0;
}

/* Has buffers of others that are cold taken first; how many. */
static BlockNumber
take_cold(BlockNumber wanted)
{
	uint64		now = pagecast_now();
	BlockNumber found = 0;

	for (BlockNumber i = 0; i < wanted * COLD_LOOKS && found < wanted; i++)
	{
		if (memory()->hand == 0)
		{
			/* A whole round has found none: the next one finds some when counts have sunk. */
			if (!memory()->ages && memory()->round_found == 0 && now < memory()->aged + aging_interval())
				break;
			begin_round(now);
		}
		if (take_if_cold(memory()->hand, now))
		{
			found++;
			memory()->round_found++;
		}
		memory()->hand = (memory()->hand + 1) % NBuffers;
	}
	memory()->asked = now;
	return found;
}

static HeldChunk *
find_held(const HeldChunk *wanted)
{
	for (uint32 i = 0; i < memory()->held; i++)
	{
		HeldChunk  *chunk = &memory()->chunks[i];

		if (chunk->number == wanted->number && chunk->name == wanted->name && RelFileLocatorEquals(chunk->locator, wanted->locator))
			return chunk;
	}
	return NULL;
}

static void
forget(HeldChunk *chunk)
{
	memory()->buffers -= chunk->count;
	*chunk = memory()->chunks[--memory()->held];
}

/* Of some held chunks one that nobody wants, or else the one that is wanted last, and of several
 * the one that was read longest ago; in how many nanoseconds. What some scan reads now, or next, is
 * wanted at once: its pages would be taken off the list of free buffers again. */
static HeldChunk *
wanted_last(uint64 *wanted_in)
{
	uint64		now = pagecast_now();
	HeldChunk  *last = NULL;

	for (uint32 i = 0; i < Min(memory()->held, LOOKS) && (last == NULL || *wanted_in < UINT64_MAX); i++)
	{
		HeldChunk  *chunk = &memory()->chunks[memory()->looked++ % memory()->held];
		bool		is_read = cooperation_is_out(cooperation_manager, chunk->name, chunk->number);
		uint64		wanted = is_read ? 0 : predictor_next_access(predictor, chunk->name, chunk->first, now);

		if (last == NULL || wanted > *wanted_in || (wanted == *wanted_in && chunk->taken < last->taken))
		{
			last = chunk;
			*wanted_in = wanted;
		}
	}
	return last;
}

static void
grow(BlockNumber buffers)
{
	memory()->limit = Min(memory()->limit + buffers, most_buffers());
}

/* A chunk leaves; `left` is told. How many buffers are free for it. */
static BlockNumber
evict(ChunkLeft left)
{
	uint64		wanted_in = 0;
	HeldChunk  *chunk = wanted_last(&wanted_in);
	HeldChunk	leaves = *chunk;
	BlockNumber freed;

	forget(chunk);
	freed = give_up_chunk(&leaves, true);
	if (freed < leaves.count / 2)
		memory()->limit = Max(memory()->limit, leaves.count) - leaves.count;
	else if (wanted_in < UINT64_MAX)
		grow(leaves.count);
	left(leaves.name, leaves.number);
	return freed;
}

/* Before a chunk of so many blocks comes into the pool: finds as many buffers for it, so that the
 * clock's hand need not go and look for them. */
static void
make_place(BlockNumber blocks, ChunkLeft left)
{
	BlockNumber free = 0;

	if (blocks > 0 && reserve_is_used())
	{
		memory()->missing = RESERVE;
		blocks += RESERVE;
	}
	if (memory()->buffers + blocks <= memory()->limit && memory()->held < MOST_HELD_CHUNKS)
		free = take_cold(blocks);
	if (memory()->buffers < NBuffers / LEAST_SHARE)
		return;
	while (memory()->held > 0 && (free < blocks || memory()->buffers + blocks > most_buffers() || memory()->held == MOST_HELD_CHUNKS))
		free += evict(left);
}

/* A scan is about to read a chunk, of which most is in the pool or not. What leaves for it is told
 * to `left`. */
void
chunk_hold(const HeldChunk *chunk, bool resident, ChunkLeft left)
{
	HeldChunk  *held = find_held(chunk);

	memory()->takes++;
	if (resident)
		grow(2 * chunk->count);
	if (held == NULL)
	{
		make_place(resident ? 0 : chunk->count, left);
		held = &memory()->chunks[memory()->held++];
		*held = *chunk;
		memory()->buffers += chunk->count;
	}
	held->taken = memory()->takes;
}

/* Nobody wants the chunk any more: others may have its buffers. */
void
chunk_release(const HeldChunk *chunk)
{
	give_up_chunk(chunk, false);
}
