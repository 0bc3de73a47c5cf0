/*
 * The part of the pool that cooperative scans have, by chunks.
 *
 * Whoever is handed a chunk says so (chunk_hold). A chunk that would be more than cooperation may
 * have takes the place of another: of one that nobody wants, or else of the one that is wanted last.
 * Who wants a chunk is asked of the predictor, which knows all scans, those of bitmaps and indexes
 * too. The buffers of the chunk that leaves are put on the server's list of those to be taken first.
 * So the hand of its clock, which ages the pages of others, moves no more than without us.
 *
 * A chunk that nobody wants stays until its place is needed: the next query may want it. But its
 * usage counts are 0 (chunk_release), and what others need they find there.
 *
 * How much cooperation may have: at first what stock gives to a table that one scan reads, a quarter
 * of the pool; a chunk more whenever a scan finds one in the pool, or one leaves that is wanted; a
 * chunk less whenever others have taken the one that leaves; at most pg_pagecast.cooperation_share.
 *
 * Race: a buffer on the list is like any other, as steering.c says. Its usage count is set to 0
 * before, under the header's lock and only if nobody has pinned it, so that it is taken.
 *
 * All of this is guarded by the lock of cooperation.c. Cost: of a chunk that is read up to LOOKS
 * questions to the predictor, of one that leaves a look at the buffer table for each block.
 */
#include "pg_pagecast.h"

#include "miscadmin.h"

/* Chunks compared to find the one that leaves. */
#define LOOKS 32
/* The part of the pool that cooperation may have at first. */
#define FIRST_SHARE 4

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

/* Whether the buffer holds the block and nobody uses it: then its usage count is 0 now. */
static bool
give_up(int buffer, const RelFileLocator *locator, BlockNumber block)
{
	BufferDesc *header = GetBufferDescriptor(buffer);
	uint32		state = LockBufHdr(header);
	RelFileLocator found = tag_locator(&header->tag);
	bool		unused = BUF_STATE_GET_REFCOUNT(state) == 0 && (state & BM_VALID) != 0 && header->tag.blockNum == block &&
		tag_fork(&header->tag) == MAIN_FORKNUM && RelFileLocatorEquals(found, *locator);

	if (unused)
		state &= ~BUF_USAGECOUNT_MASK;
	UnlockBufHdr(header, state);
	return unused;
}

/* How many of the chunk's buffers are there; those that nobody uses are given up, and if `at_once`
 * they are taken first. */
static BlockNumber
give_up_chunk(const HeldChunk *chunk, bool at_once)
{
	BlockNumber found = 0;

	for (BlockNumber i = 0; i < chunk->count; i++)
	{
		int			buffer = buffer_of_block(&chunk->locator, MAIN_FORKNUM, chunk->first + i);

		if (buffer < 0)
			continue;
		found++;
		if (give_up(buffer, &chunk->locator, chunk->first + i) && at_once)
			StrategyFreeBuffer(GetBufferDescriptor(buffer));
	}
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
 * the one that was read longest ago; in how many nanoseconds. */
static HeldChunk *
wanted_last(uint64 *wanted_in)
{
	uint64		now = pagecast_now();
	HeldChunk  *last = NULL;

	for (uint32 i = 0; i < Min(memory()->held, LOOKS) && (last == NULL || *wanted_in < UINT64_MAX); i++)
	{
		HeldChunk  *chunk = &memory()->chunks[memory()->looked++ % memory()->held];
		uint64		wanted = predictor_next_access(predictor, chunk->name, chunk->first, now);

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

/* A chunk leaves; `left` is told. */
static void
evict(ChunkLeft left)
{
	uint64		wanted_in = 0;
	HeldChunk  *chunk = wanted_last(&wanted_in);
	HeldChunk	leaves = *chunk;

	forget(chunk);
	if (give_up_chunk(&leaves, true) < leaves.count / 2)
		memory()->limit = Max(memory()->limit, leaves.count) - leaves.count;
	else if (wanted_in < UINT64_MAX)
		grow(leaves.count);
	left(leaves.name, leaves.number);
}

/* A scan is about to read a chunk, of which most is in the pool or not. What leaves for it is told
 * to `left`. */
void
chunk_hold(const HeldChunk *chunk, bool resident, ChunkLeft left)
{
	HeldChunk  *held = find_held(chunk);

	memory()->takes++;
	if (resident)
		grow(chunk->count);
	if (held == NULL)
	{
		while (memory()->held > 0 && (memory()->buffers + chunk->count > Min(memory()->limit, most_buffers()) || memory()->held == MOST_HELD_CHUNKS))
			evict(left);
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
