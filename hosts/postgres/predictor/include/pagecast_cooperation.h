/*
 * pagecast's cooperation of scans: the C side of predictor/src/cooperation.rs.
 *
 * Who reads which chunk of a table next, so that scans of the same tables share what is read. Every
 * function is called by one process at a time ("lock"). A relation is any 32-bit name, the same in
 * all processes, and a chunk of it any 32-bit number. No function allocates, waits, unwinds or
 * jumps.
 */
#ifndef PAGECAST_COOPERATION_H
#define PAGECAST_COOPERATION_H

#include "pagecast_predictor.h"

typedef struct CooperationConfig
{
	uint32_t	scans;			/* that may be registered at once */
	uint32_t	chunks;			/* that they may need together */
	uint32_t	words;			/* of 8 bytes: 3 a scan for each of its chunks, 7 and more a chunk */
} CooperationConfig;

/* Words of a scan, and of a chunk if `scans` may be registered at once. */
#define COOPERATION_SCAN_WORDS(chunks) (3 * (size_t) (chunks) + 2 * (((size_t) (chunks) + 63) / 64))
#define COOPERATION_CHUNK_WORDS(scans) (10 + 2 * (((size_t) (scans) + 63) / 64))

typedef enum CooperationTake
{
	TAKE_CHUNK = 0,
	TAKE_WAIT = 1,				/* others of this scan have taken the last ones */
	TAKE_END = 2				/* all have been read, or the scan has ended */
} CooperationTake;

typedef struct CooperationTaken
{
	uint32_t	chunk;			/* from the scan's first, which is 0 */
	bool		resident;		/* in the pool, as far as is known; else the taker reads it */
	bool		shared;			/* another scan's read has brought it */
} CooperationTaken;

typedef struct CooperationMember
{
	uint32_t	chunks;			/* registered */
	uint32_t	left;			/* to be handed out */
	uint32_t	out;			/* handed out */
	uint32_t	available;		/* of those left, in the pool */
	uint64_t	shared;			/* handed out that another scan's read has brought */
} CooperationMember;

typedef struct CooperationChunk
{
	uint32_t	relation;
	uint32_t	chunk;
	uint32_t	wanted;			/* by so many scans */
	bool		resident;
} CooperationChunk;

extern size_t cooperation_words(const CooperationConfig *config);
extern bool cooperation_format(PredictorMemory memory, const CooperationConfig *config);

/* Registers a scan of the chunks first ... first + count - 1 with so many workers. Bit i of
 * `resident` says whether chunk first + i is in the pool; it is asked about chunks that no
 * registered scan needs. A PredictorStatus. */
extern int	cooperation_register(PredictorMemory memory, uint32_t relation, uint32_t first, uint32_t count,
								 const uint64_t *resident, uint32_t workers, uint64_t now, uint64_t *member);

/* A chunk for a worker of the scan; a CooperationTake. What is taken is either consumed or given
 * back, or the scan is finished. */
extern int	cooperation_take(PredictorMemory memory, uint64_t member, uint64_t now, CooperationTaken *taken);
extern void cooperation_consumed(PredictorMemory memory, uint64_t member, uint32_t chunk);
extern void cooperation_give_back(PredictorMemory memory, uint64_t member, uint32_t chunk);

/* The scan needs this one of its chunks no more. */
extern void cooperation_remove(PredictorMemory memory, uint64_t member, uint32_t chunk);
extern void cooperation_finish(PredictorMemory memory, uint64_t member);

/* A chunk has come into the pool or left it. Chunks that nobody needs are not remembered. */
extern void cooperation_note(PredictorMemory memory, uint32_t relation, uint32_t chunk, bool resident);

/* Whether some scan has still to read the chunk, or reads it. */
extern bool cooperation_needed(PredictorMemory memory, uint32_t relation, uint32_t chunk);

/* Whether some scan has been handed the chunk, and has not read it yet. */
extern bool cooperation_is_out(PredictorMemory memory, uint32_t relation, uint32_t chunk);

extern bool cooperation_member(PredictorMemory memory, uint64_t member, CooperationMember *view);
extern uint32_t cooperation_units(PredictorMemory memory, CooperationChunk *views, uint32_t most);

#endif							/* PAGECAST_COOPERATION_H */
