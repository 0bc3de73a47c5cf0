/* pagecast for C. Generated from hosts/capi/src by cbindgen; change it there.
 *
 * Every call returns a status. On any but PAGECAST_OK, pagecast_message() says what went wrong, in this thread. No call
 * ends the process or unwinds into C.
 *
 * What the caller promises:
 * (C1) A handle comes from this library, was not given back, and is not given back while another call uses it.
 * (C2) An output pointer points to memory of its type that may be written.
 * (C3) A string ends with a zero byte; an array has as many elements as its count says.
 * (C4) A page is read only until it is unpinned.
 * Handles may be used by several threads at once. A null handle or output is refused, not followed.
 */

#ifndef PAGECAST_H
#define PAGECAST_H

#include <stddef.h>
#include <stdint.h>

/*
 What became of a call. The numbers stay as they are; later versions may add some.
 */
typedef enum pagecast_status {
  /*
   Done.
   */
  PAGECAST_STATUS_OK = 0,
  /*
   A null pointer, a number out of range, a text that cannot be read.
   */
  PAGECAST_STATUS_INVALID_ARGUMENT = 1,
  /*
   Every frame is pinned or being filled: unpin some pages, or read past the pool with pagecast_read.
   */
  PAGECAST_STATUS_NO_FRAME = 2,
  /*
   Storage refused to open, read or write.
   */
  PAGECAST_STATUS_IO = 3,
  /*
   The file is not the one that was opened: open it again.
   */
  PAGECAST_STATUS_CHANGED = 4,
  /*
   The file has no such page or byte.
   */
  PAGECAST_STATUS_OUT_OF_BOUNDS = 5,
  /*
   No room for another scan. The scan may run without being registered.
   */
  PAGECAST_STATUS_NO_ROOM = 6,
  /*
   Pages of the pool are still pinned.
   */
  PAGECAST_STATUS_IN_USE = 7,
  /*
   Memory or threads were refused, or too little memory was offered.
   */
  PAGECAST_STATUS_SETUP = 8,
  /*
   A mistake inside pagecast. The pool stays usable.
   */
  PAGECAST_STATUS_INTERNAL = 9,
} pagecast_status;

/*
 What keeps a page in place. `'static` for C's sake: a pool is not closed while a page of it is pinned.
 */
typedef struct pagecast_pin_handle pagecast_pin_handle;

/*
 A buffer pool.
 */
typedef struct pagecast_pool pagecast_pool;

/*
 An open file.
 */
typedef struct pagecast_relation pagecast_relation;

/*
 A scan that the pool knows of.
 */
typedef struct pagecast_scan pagecast_scan;

/*
 How to make a pool. Start from pagecast_default_options().
 */
typedef struct pagecast_options {
  /*
   Bytes for everything: pages and what is known of them.
   */
  uint64_t memory;
  /*
   Seed of what the policy leaves to chance.
   */
  uint64_t seed;
  /*
   Who leaves, by name: "pbm", "lru", "clock(max=3)". Null: pbm.
   */
  const char *policy;
  /*
   Bytes of a page: a multiple of 4096, at most 4 MiB.
   */
  uint32_t page_size;
} pagecast_options;

/*
 What a pool has done since it was opened.
 */
typedef struct pagecast_stats {
  /*
   Requests for a page.
   */
  uint64_t requests;
  /*
   Requests that found it resident.
   */
  uint64_t hits;
  /*
   Requests that found it on its way.
   */
  uint64_t waits;
  /*
   Bytes that pagecast_read was asked for.
   */
  uint64_t bytes_requested;
  /*
   Bytes that came from storage.
   */
  uint64_t bytes_read;
  /*
   Bytes of those that went past the pool, because no frame was free.
   */
  uint64_t bypassed_bytes;
  /*
   Pages that were loaded.
   */
  uint64_t loads;
  /*
   Loads that failed.
   */
  uint64_t failed_loads;
  /*
   Pages that left their frame for another.
   */
  uint64_t evictions;
  /*
   How many pages the pool holds.
   */
  uint32_t frames;
  /*
   How many frames are pinned now.
   */
  uint32_t pinned;
} pagecast_stats;

/*
 Neighbouring pages that a scan reads one after the other: page first + i at position + span * i / pages.
 */
typedef struct pagecast_run {
  /*
   The first page, from 0.
   */
  uint32_t first;
  /*
   How many pages, at least 1.
   */
  uint32_t pages;
  /*
   Where on the scan's axis the first page lies.
   */
  uint64_t position;
  /*
   How many positions the pages cover.
   */
  uint64_t span;
} pagecast_run;

/*
 The pages of one relation that a scan reads.
 */
typedef struct pagecast_part {
  /*
   The relation.
   */
  const struct pagecast_relation *relation;
  /*
   Its runs, in the order of their first page.
   */
  const struct pagecast_run *runs;
  /*
   How many runs.
   */
  uintptr_t run_count;
} pagecast_part;

/*
 A pinned page. Its bytes stay where they are until pagecast_unpin.
 */
typedef struct pagecast_page {
  /*
   The page's bytes.
   */
  const uint8_t *data;
  /*
   How many: the page size, less on the last page of a file.
   */
  uintptr_t length;
  /*
   pagecast's own.
   */
  struct pagecast_pin_handle *pin;
} pagecast_page;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 What went wrong in this thread's last call that did not return PAGECAST_OK; empty before the first. The text stays
 until the thread's next failure.
 */
const char *pagecast_message(void);

/*
 256 MiB in pages of 64 KiB, policy pbm.
 */
struct pagecast_options pagecast_default_options(void);

/*
 Makes a pool over the local file system. Null options are the default ones.

 # Safety

 (C2), (C3)
 */
enum pagecast_status pagecast_pool_open(const struct pagecast_options *options, struct pagecast_pool **pool);

/*
 Closes a pool. Refused with PAGECAST_STATUS_IN_USE, and then nothing happens, while a page of it is pinned. Its
 relations and scans are closed by their own calls, before or after.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_pool_close(struct pagecast_pool *pool);

/*
 What the pool has done so far.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_pool_stats(const struct pagecast_pool *pool, struct pagecast_stats *stats);

/*
 Opens a file as it is now. If it changes later, reads fail with PAGECAST_STATUS_CHANGED.

 # Safety

 (C1), (C2), (C3)
 */
enum pagecast_status pagecast_relation_open(const struct pagecast_pool *pool,
                                            const char *path,
                                            struct pagecast_relation **relation);

/*
 Gives the handle of a file back. Its pages stay in the pool.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_relation_close(struct pagecast_relation *relation);

/*
 Bytes of the file; 0 for null.

 # Safety

 (C1)
 */
uint64_t pagecast_relation_length(const struct pagecast_relation *relation);

/*
 Pages of the file; 0 for null.

 # Safety

 (C1)
 */
uint32_t pagecast_relation_pages(const struct pagecast_relation *relation);

/*
 Announces a scan over an axis of `length` positions (bytes or rows, say). `kind` is a number below 8 of the caller's:
 scans of a kind are expected to be equally fast. The scan may read without this; the policy then does not know what
 it will want.

 # Safety

 (C1), (C2), (C3)
 */
enum pagecast_status pagecast_scan_register(const struct pagecast_pool *pool,
                                            uint8_t kind,
                                            uint64_t length,
                                            const struct pagecast_part *parts,
                                            uintptr_t part_count,
                                            struct pagecast_scan **scan);

/*
 All positions before `position` are done. Several threads of one scan may report; the furthest position counts.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_scan_report(const struct pagecast_scan *scan, uint64_t position);

/*
 The scan has ended, or was given up.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_scan_finish(struct pagecast_scan *scan);

/*
 Pins page `block` of the relation, and reads it first if it is not resident. `scan` may be null. On failure `page` is
 not written.

 # Safety

 (C1), (C2), (C4)
 */
enum pagecast_status pagecast_pin(const struct pagecast_pool *pool,
                                  const struct pagecast_relation *relation,
                                  uint32_t block,
                                  const struct pagecast_scan *scan,
                                  struct pagecast_page *page);

/*
 Gives a pinned page back and clears `page`: its bytes must not be read any more. A cleared page is refused.

 # Safety

 (C1), (C2), (C4)
 */
enum pagecast_status pagecast_unpin(struct pagecast_page *page);

/*
 Copies `length` bytes from `offset` of the relation into `bytes`, through the pool: pages that are missing are read
 and, where there is a free frame, kept. Never fails for want of a frame. `scan` may be null.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_read(const struct pagecast_pool *pool,
                                   const struct pagecast_relation *relation,
                                   uint64_t offset,
                                   uintptr_t length,
                                   const struct pagecast_scan *scan,
                                   uint8_t *bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGECAST_H */
