/* pagecast for C. Generated from hosts/capi/src by cbindgen; change it there.
 *
 * Every call returns a status. On any but PAGECAST_OK, pagecast_message() says what went wrong, in
 * this thread. No call ends the process or unwinds into C.
 *
 * What the caller promises:
 * (C1) A handle or text comes from this library, was not given back, and is not given back while
 *      another call uses it.
 * (C2) An output pointer points to memory of its type that may be written.
 * (C3) A string ends with a zero byte; an array has as many elements as its count says.
 * (C4) A page is used only until it is unpinned. A page that is pinned to be written, like a
 *      session, is used by one thread at a time.
 * (C5) The functions for the log and for layouts may be called from any thread, by several at once,
 *      until the pool is closed.
 * Other handles may be used by several threads at once. A null handle or output is refused, not
 * followed.
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
   Every frame is pinned or being filled: unpin some pages, or read past the pool with
   pagecast_read.
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
   No room for another scan, which may run without being registered, or for another relation to
   be kept.
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
  /*
   The pool changes no page any more: a sync failed, or a change was not logged. Pages can
   still be read.
   */
  PAGECAST_STATUS_READ_ONLY = 10,
  /*
   The bytes in the file are not a page as pagecast wrote it.
   */
  PAGECAST_STATUS_DAMAGED = 11,
  /*
   There is nothing yet: ask again.
   */
  PAGECAST_STATUS_NOT_YET = 12,
} pagecast_status;

/*
 How pages keep their items.
 */
typedef enum pagecast_layout_kind {
  /*
   Rows of `row` bytes, one after the other, from byte `first` on. Item n is row n.
   */
  PAGECAST_LAYOUT_KIND_FIXED_ROWS = 0,
  /*
   From byte `first` on the number of slots, then for each its offset in the page and its
   length, all as little-endian numbers of 16 bits. Item n is slot n; of length 0 it is none.
   */
  PAGECAST_LAYOUT_KIND_SLOTTED = 1,
  /*
   What the functions say.
   */
  PAGECAST_LAYOUT_KIND_FUNCTIONS = 2,
} pagecast_layout_kind;

/*
 A chunk that was handed out to be read.
 */
typedef struct pagecast_lease pagecast_lease;

/*
 What keeps a page in place. It does not outlive its pool, which cannot be closed before.
 */
typedef struct pagecast_pin_handle pagecast_pin_handle;

/*
 What keeps a page in place for one who changes it. It does not outlive its pool, which cannot be
 closed before.
 */
typedef struct pagecast_pin_mut_handle pagecast_pin_mut_handle;

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
 One thread's or client's own way to a pool. It does not outlive the pool, which cannot be closed
 before.
 */
typedef struct pagecast_session pagecast_session;

/*
 A relation and where its pages keep their items.
 */
typedef struct pagecast_tuples pagecast_tuples;

/*
 Makes the log durable up to record `lsn`, writes to `durable` up to which record it is, and
 returns 0; or returns another number, and the pages that wait for the record stay in the pool.
 Called from pagecast's threads, several at once.
 */
typedef int (*pagecast_flush_log)(void *context, uint64_t lsn, uint64_t *durable);

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
   The most bytes that pagecast_pool_resize may give it later; 0 for no more than `memory`.
   */
  uint64_t max_memory;
  /*
   The log that must be durable before a page is written; null for none.
   */
  pagecast_flush_log flush_log;
  /*
   Handed to `flush_log`.
   */
  void *log_context;
  /*
   The share of the pages that may be brought before they are asked for, 0 to 0.5.
   */
  double prefetch_share;
  /*
   Bytes of a page: a multiple of 4096, at most 4 MiB.
   */
  uint32_t page_size;
  /*
   Other than 0: scans that are registered have their next pages brought as they report and
   read.
   */
  uint8_t read_ahead;
  /*
   Other than 0: requests and hits are counted by relation, too, for pagecast_pool_snapshot.
   */
  uint8_t count_relations;
  /*
   Other than 0: hot items go on when their page is evicted, of relations whose items are known
   (pagecast_tuples_open).
   */
  uint8_t tuples;
} pagecast_options;

/*
 What a change of size has come to.
 */
typedef struct pagecast_resized {
  /*
   How many pages the pool holds from now on.
   */
  uint32_t frames;
  /*
   Pages beyond these that are pinned, on their way or unwritten now. Their memory is given
   back when they are done with and others are loaded, or by the next call.
   */
  uint32_t held;
} pagecast_resized;

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
   Dirty pages that were written.
   */
  uint64_t pages_written;
  /*
   Writes that failed.
   */
  uint64_t failed_writes;
  /*
   Pages that were brought before they were asked for.
   */
  uint64_t prefetched;
  /*
   Pages of those that were there when they were asked for.
   */
  uint64_t prefetch_useful;
  /*
   Pages of those that were still on their way.
   */
  uint64_t prefetch_late;
  /*
   Pages of those that left without being asked for.
   */
  uint64_t prefetch_wasted;
  /*
   Requests for an item that were answered without its page; none of the requests for a page.
   */
  uint64_t tuple_hits;
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
 Neighbouring pages that a scan reads one after the other: page first + i at position + span * i
 / pages.
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
 What a scan reads at once: some pages of a stretch of a relation. Scans that have the same
 stretch (relation, first, pages) share what is read of it.
 */
typedef struct pagecast_chunk {
  /*
   The relation.
   */
  const struct pagecast_relation *relation;
  /*
   The first page of the stretch.
   */
  uint32_t first;
  /*
   How many pages the stretch has.
   */
  uint32_t pages;
  /*
   Which of them are read: bit i of word w stands for page first + 64 * w + i, in as many words
   as `pages` takes. Null: all of them.
   */
  const uint64_t *need;
} pagecast_chunk;

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

/*
 How many items a page of `length` bytes has at most.
 */
typedef uint32_t (*pagecast_count_items)(void *context, uintptr_t length);

/*
 Writes the name of the item in place `place` of the page, from 0 to the number of items without
 it, and returns other than 0; 0 if there is none.
 */
typedef int (*pagecast_name_item)(void *context,
                                  const uint8_t *page,
                                  uintptr_t length,
                                  uint32_t place,
                                  uint32_t *item);

/*
 Writes where in the page item `item` begins and where it ends, and returns other than 0; 0 if
 the page does not have it whole.
 */
typedef int (*pagecast_locate_item)(void *context,
                                    const uint8_t *page,
                                    uintptr_t length,
                                    uint32_t item,
                                    uint32_t *start,
                                    uint32_t *end);

/*
 Where the pages of a relation keep their items. What the functions answer is not trusted: a
 range outside the page is no item. They are pure and quick and call nothing of pagecast.
 */
typedef struct pagecast_layout {
  /*
   Which of the fields below count.
   */
  enum pagecast_layout_kind kind;
  /*
   Bytes of a page before its rows, or before the number of its slots.
   */
  uint32_t first;
  /*
   Bytes of a row.
   */
  uint32_t row;
  /*
   Of kind FUNCTIONS.
   */
  pagecast_count_items items;
  /*
   Of kind FUNCTIONS: null if items are named by their places, else say by a hash of a key.
   */
  pagecast_name_item name;
  /*
   Of kind FUNCTIONS.
   */
  pagecast_locate_item locate;
  /*
   Handed to the functions.
   */
  void *context;
} pagecast_layout;

/*
 Appends a change to the log and returns the record's number; 0 without a log.
 */
typedef uint64_t (*pagecast_log_item)(void *context);

/*
 A page that is pinned by its holder alone.
 */
typedef struct pagecast_page_mut {
  /*
   The page's bytes, which may be written until pagecast_unpin_written.
   */
  uint8_t *data;
  /*
   How many: the page size. Of a sealed file the last 24 are pagecast's.
   */
  uintptr_t length;
  /*
   pagecast's own.
   */
  struct pagecast_pin_mut_handle *pin;
} pagecast_page_mut;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 What went wrong in this thread's last call that did not return PAGECAST_OK; empty before the
 first. The text stays until the thread's next failure.
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
enum pagecast_status pagecast_pool_open(const struct pagecast_options *options,
                                        struct pagecast_pool **pool);

/*
 Closes a pool. What was changed and not flushed is left to the log. Refused with
 PAGECAST_STATUS_IN_USE, and then nothing happens, while a page of it is pinned or a session
 open. Its relations and scans are closed by their own calls, before or after.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_pool_close(struct pagecast_pool *pool);

/*
 Gives the pool `memory` bytes in all from now on, at most what `max_memory` said. Readers go on
 meanwhile.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_pool_resize(const struct pagecast_pool *pool,
                                          uint64_t memory,
                                          struct pagecast_resized *resized);

/*
 What the pool has done so far.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_pool_stats(const struct pagecast_pool *pool,
                                         struct pagecast_stats *stats);

/*
 The pool as it is now, as text in the format that Prometheus scrapes: counts, frames by state,
 memory, storage, open files. Looks at each frame and stops nobody. The text ends with a zero
 byte and is given back by pagecast_text_free.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_pool_snapshot(const struct pagecast_pool *pool, char **text);

/*
 Gives a text back that was given by pagecast_pool_snapshot.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_text_free(char *text);

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
 Bounds the pages of a relation that are resident to `frames`; 0 lifts the bound. When it has as
 many, each further load takes the place of its oldest page that is not pinned. Pinned pages and
 those on their way come on top. A file that is replaced is another relation, without a bound.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_relation_cap(const struct pagecast_pool *pool,
                                           const struct pagecast_relation *relation,
                                           uint32_t frames);

/*
 Keeps up to `frames` pages of a relation: while no more of them are resident, evictions pass
 over them as long as they find another; 0 ends that. To be set before the relation is read.
 PAGECAST_STATUS_NO_ROOM if 16 others are kept.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_relation_reserve(const struct pagecast_pool *pool,
                                               const struct pagecast_relation *relation,
                                               uint32_t frames);

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
 Announces a scan over an axis of `length` positions (bytes or rows, say). `kind` is a number
 below 8 of the caller's: scans of a kind are expected to be equally fast. The scan may read
 without this; the policy then does not know what it will want.

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
 All positions before `position` are done. Several threads of one scan may report; the furthest
 position counts.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_scan_report(const struct pagecast_scan *scan, uint64_t position);

/*
 Bounds the resident pages that this scan had loaded to `frames`; 0 lifts the bound. A scan that
 reads everything once then leaves the rest of the pool alone.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_scan_cap(const struct pagecast_scan *scan, uint32_t frames);

/*
 Asks the pool to bring `length` bytes from `offset` of the relation before the scan reads them,
 and writes to `pages` how many pages are on their way because of that. Does not wait. Pages that
 are there, that find no room in the pool's prefetch share, that would displace what a scan
 wants, or that are of another pool, are left out.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_scan_prefetch(const struct pagecast_scan *scan,
                                            const struct pagecast_relation *relation,
                                            uint64_t offset,
                                            uint64_t length,
                                            uint32_t *pages);

/*
 The scan has ended, or was given up. One that reads in any order ends when its leases have
 ended, too.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_scan_finish(struct pagecast_scan *scan);

/*
 Announces a scan that reads its chunks in any order: chunks that are in memory come first, and
 what is loaded serves as many scans as possible. `kind` is as of pagecast_scan_register, and of
 unordered scans only; `workers` is how many threads take chunks at once.

 # Safety

 (C1), (C2), (C3)
 */
enum pagecast_status pagecast_scan_register_unordered(const struct pagecast_pool *pool,
                                                      uint8_t kind,
                                                      uint32_t workers,
                                                      const struct pagecast_chunk *chunks,
                                                      uintptr_t chunk_count,
                                                      struct pagecast_scan **scan);

/*
 Writes to `lease` the next chunk of a scan that reads in any order; null when all chunks have
 been consumed. If there is none yet, it waits, or returns PAGECAST_STATUS_NOT_YET if `wait` is
 0. Any thread.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_scan_take(const struct pagecast_scan *scan,
                                        uint8_t wait,
                                        struct pagecast_lease **lease);

/*
 Says that the scan does not need a chunk any more. One that is handed out stays so.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_scan_remove(const struct pagecast_scan *scan, uint32_t chunk);

/*
 Writes to `chunk` which chunk it is, from 0, in the order of registration.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_lease_chunk(const struct pagecast_lease *lease, uint32_t *chunk);

/*
 Says that all pages of the chunk have been asked for: the scan wants them no more.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_lease_asked(const struct pagecast_lease *lease);

/*
 The chunk has been read, and is not handed out again. The lease ends.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_lease_consumed(struct pagecast_lease *lease);

/*
 The chunk has not been read, and is handed out again. The lease ends.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_lease_return(struct pagecast_lease *lease);

/*
 Pins page `block` of the relation, and reads it first if it is not resident. `scan` may be null.
 On failure `page` is not written.

 # Safety

 (C1), (C2), (C4)
 */
enum pagecast_status pagecast_pin(const struct pagecast_pool *pool,
                                  const struct pagecast_relation *relation,
                                  uint32_t block,
                                  const struct pagecast_scan *scan,
                                  struct pagecast_page *page);

/*
 Gives a pinned page back and clears `page`: its bytes must not be read any more. A cleared page
 is refused.

 # Safety

 (C1), (C2), (C4)
 */
enum pagecast_status pagecast_unpin(struct pagecast_page *page);

/*
 Copies `length` bytes from `offset` of the relation into `bytes`, through the pool: pages that
 are missing are read and, where there is a free frame, kept. Never fails for want of a frame.
 `scan` may be null. On failure `bytes` may hold anything.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_read(const struct pagecast_pool *pool,
                                   const struct pagecast_relation *relation,
                                   uint64_t offset,
                                   uintptr_t length,
                                   const struct pagecast_scan *scan,
                                   uint8_t *bytes);

/*
 Opens a session: a way to the pool on which a hit writes no memory that other threads write, but
 the page's own pin. It takes about 3 KiB. It may go from thread to thread, and makes one call at
 a time.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_session_open(const struct pagecast_pool *pool,
                                           struct pagecast_session **session);

/*
 Ends a session. Pages that were pinned through it stay pinned.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_session_close(struct pagecast_session *session);

/*
 As pagecast_pin, through a session. The page is given back by pagecast_unpin, by any thread.

 # Safety

 (C1), (C2), (C4)
 */
enum pagecast_status pagecast_session_pin(struct pagecast_session *session,
                                          const struct pagecast_relation *relation,
                                          uint32_t block,
                                          const struct pagecast_scan *scan,
                                          struct pagecast_page *page);

/*
 Copies `length` bytes of page `block`, from byte `offset` of the page on, into `bytes`. Of a
 page that is resident they are copied without pinning it, unless it is being changed or
 `count_relations` is on; else it is pinned meanwhile, and read if need be. `scan` may be null.
 On failure `bytes` may hold anything.

 # Safety

 (C1), (C2), (C4)
 */
enum pagecast_status pagecast_session_copy(struct pagecast_session *session,
                                           const struct pagecast_relation *relation,
                                           uint32_t block,
                                           uint32_t offset,
                                           uintptr_t length,
                                           const struct pagecast_scan *scan,
                                           uint8_t *bytes);

/*
 Says where the pages of a relation keep their items. A relation has one layout for as long as it
 is open. Items go on without their pages if the pool was opened with `tuples`.

 # Safety

 (C1), (C2), (C5)
 */
enum pagecast_status pagecast_tuples_open(const struct pagecast_pool *pool,
                                          const struct pagecast_relation *relation,
                                          const struct pagecast_layout *layout,
                                          struct pagecast_tuples **tuples);

/*
 Gives the handle back. The relation keeps its layout.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_tuples_close(struct pagecast_tuples *tuples);

/*
 Copies item `item` of page `block` into `bytes`, `capacity` bytes of it at most, and writes its
 whole length to `length`; 0 if the page has no such item. On failure `bytes` may hold anything.

 # Safety

 (C1), (C2), (C4)
 */
enum pagecast_status pagecast_tuples_read(struct pagecast_session *session,
                                          const struct pagecast_tuples *tuples,
                                          uint32_t block,
                                          uint32_t item,
                                          uint8_t *bytes,
                                          uintptr_t capacity,
                                          uintptr_t *length);

/*
 Changes item `item` of page `block` to other bytes of the same length. `log` is called once if
 the item is there, in this thread, while nobody else can change the page; it may be null without
 a log.

 # Safety

 (C1), (C3)
 */
enum pagecast_status pagecast_tuples_update(const struct pagecast_tuples *tuples,
                                            uint32_t block,
                                            uint32_t item,
                                            const uint8_t *bytes,
                                            uintptr_t length,
                                            pagecast_log_item log,
                                            void *context);

/*
 Opens a file to change its pages, alone. With `create` other than 0, makes it if there is none;
 with `sealed` other than 0, each page ends with a checksum that is checked when it is read.

 # Safety

 (C1), (C2), (C3)
 */
enum pagecast_status pagecast_relation_open_to_write(const struct pagecast_pool *pool,
                                                     const char *path,
                                                     uint8_t create,
                                                     uint8_t sealed,
                                                     struct pagecast_relation **relation);

/*
 Adds `pages` pages of zeros at the end of the file and writes the first one's number to `first`.

 # Safety

 (C1), (C2)
 */
enum pagecast_status pagecast_relation_grow(const struct pagecast_pool *pool,
                                            const struct pagecast_relation *relation,
                                            uint32_t pages,
                                            uint32_t *first);

/*
 Pins page `block` alone, to change it: waits until others have unpinned it, for ever if this
 thread is one of them. `scan` may be null. On failure `page` is not written.

 # Safety

 (C1), (C2), (C4)
 */
enum pagecast_status pagecast_pin_to_write(const struct pagecast_pool *pool,
                                           const struct pagecast_relation *relation,
                                           uint32_t block,
                                           const struct pagecast_scan *scan,
                                           struct pagecast_page_mut *page);

/*
 The page was changed, and the change is record `lsn` of the log (0 without a log): it is written
 some time after the log is durable to there. To be called after each change and before the page
 is unpinned; without it the change is lost when the page leaves the pool.

 # Safety

 (C1), (C2), (C4)
 */
enum pagecast_status pagecast_mark_dirty(const struct pagecast_page_mut *page, uint64_t lsn);

/*
 Gives a page back that was pinned to be written, and clears `page`. A cleared page is refused.

 # Safety

 (C1), (C2), (C4)
 */
enum pagecast_status pagecast_unpin_written(struct pagecast_page_mut *page);

/*
 Writes every page that is dirty now and makes it safe from a crash. Waits for those who have a
 dirty page pinned to write it, for ever if this thread is one of them.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_flush(const struct pagecast_pool *pool);

/*
 As pagecast_flush, for pages whose first unwritten change is before log record `lsn`: the log is
 not needed before it any more. `lsn` is at most the end of the log at the call.

 # Safety

 (C1)
 */
enum pagecast_status pagecast_checkpoint(const struct pagecast_pool *pool, uint64_t lsn);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGECAST_H */
