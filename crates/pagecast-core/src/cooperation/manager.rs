//! The calls of a host.

use super::bits::numbers;
use super::layout::{HEADER_WORDS, Layout, MAGIC, header};
use super::members::{ENDS_EARLY, Member, stretch_words};
use super::state::{State, mistaken};
use super::{
    Chunk, ChunkFault, CooperationConfig, FormatError, Load, Loading, MemberId, MemberView, Refusal, Take, Unit,
    UnitView, Usage,
};
use crate::sync::atomic::{AtomicU64, Ordering::Release};
use crate::words::{NIL, Words, join};
use crate::{PageId, Tick};

/// The manager: who gets which chunk, and what is loaded next.
///
/// All calls are made under one lock of the host. Several processes may each have one over the same
/// memory, under one lock that they share. Nothing waits here. After each call that may serve
/// somebody (all but the views) the host begins what [`next_load`](Self::next_load) tells, until
/// that is nothing, and wakes whom [`wake`](Self::wake) names.
#[derive(Debug)]
pub struct Cooperation<M> {
    memory: M,
    layout: Layout,
}

impl<M: AsRef<[AtomicU64]>> Cooperation<M> {
    /// Takes `memory`, of at least [`CooperationConfig::words`] words, and makes it a manager
    /// without scans. What it held is lost; nobody else may use it during the call.
    ///
    /// # Errors
    /// [`FormatError`] if the memory is too small or the configuration has no size.
    pub fn format(memory: M, config: CooperationConfig) -> Result<Self, FormatError> {
        let layout = config.layout().ok_or(FormatError::BadConfig)?.fits(Words(memory.as_ref()))?;
        let manager = Self { memory, layout };
        let state = manager.state();
        let words = state.words;
        (0..HEADER_WORDS).for_each(|at| words.set(at, 0));
        words.set(header::SCANS_UNITS, join(config.scans, config.units));
        words.set(header::WORDS, u64::from(config.words));
        state.clear_sets();
        layout.all_buckets().for_each(|bucket| words.set(bucket, u64::from(NIL)));
        for member in (0..config.scans).filter_map(|slot| state.slot(slot)) {
            member.set_generation(0);
            member.set_chunks(0);
            member.set_next_free(if member.slot + 1 == config.scans { NIL } else { member.slot + 1 });
        }
        state.free_all_units();
        state.clear_arena();
        state.set_loading(Loading::default());
        // Release: pairs with the Acquire in `FormatError::unless_formatted`.
        words.store(header::MAGIC, MAGIC, Release);
        Ok(manager)
    }

    /// The manager of memory that was formatted before, perhaps by another process.
    ///
    /// # Errors
    /// [`FormatError`] if the memory holds no manager of this version, or is shorter than it says.
    pub fn attach(memory: M) -> Result<Self, FormatError> {
        let layout = Layout::read(Words(memory.as_ref()))?;
        Ok(Self { memory, layout })
    }

    fn state(&self) -> State<'_> {
        State { words: Words(self.memory.as_ref()), layout: &self.layout }
    }

    /// How much it can hold.
    pub fn config(&self) -> CooperationConfig {
        self.layout.config
    }

    /// Who loads, for all processes that share the memory.
    pub fn loading(&self) -> Loading {
        self.state().loading()
    }

    /// Sets who loads from here on.
    pub fn set_loading(&mut self, loading: Loading) {
        let state = self.state();
        state.set_loading(loading);
        state.registered().iter().filter_map(|slot| state.slot(slot)).for_each(Member::refresh);
    }

    /// With so many workers that have a chunk, or one that is ready for them, the processors have
    /// enough to do: no load begins, and what was loaded is read by all who need it. 0, as at
    /// first: loads never wait.
    pub fn set_enough_at_work(&mut self, workers: u32) {
        self.state().words.set(header::ENOUGH_AT_WORK, workers.into());
    }

    /// Registers a scan that needs `chunks` and takes them with `workers` workers. `resident` is
    /// asked about blocks of which nothing is known: of units that no registered scan needs yet, or
    /// none that needs these blocks.
    ///
    /// # Errors
    /// [`Refusal`], which says what is full or what is wrong; then nothing has changed.
    pub fn register(
        &mut self,
        chunks: &[Chunk<'_>],
        workers: u32,
        now: Tick,
        resident: impl Fn(PageId) -> bool,
    ) -> Result<MemberId, Refusal> {
        // A chunk needs three words, and no memory has 2^32.
        let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        self.register_each(count, |number| chunks[number as usize], workers, now, resident)
    }

    /// As [`register`](Self::register), for a host without memory for a list of `count` chunks:
    /// `chunk` names each, and the same at each call.
    ///
    /// # Errors
    /// As of [`register`](Self::register).
    pub fn register_each<'s>(
        &mut self,
        count: u32,
        chunk: impl Fn(u32) -> Chunk<'s>,
        workers: u32,
        now: Tick,
        resident: impl Fn(PageId) -> bool,
    ) -> Result<MemberId, Refusal> {
        let id = self.try_register(count, chunk, workers, now, resident);
        if matches!(id, Err(Refusal::TooManyScans { .. } | Refusal::TooManyUnits { .. } | Refusal::NoSpace { .. })) {
            let words = self.state().words;
            words.set(header::REFUSED, words.get(header::REFUSED).wrapping_add(1));
        }
        id
    }

    fn try_register<'s>(
        &self,
        count: u32,
        chunk_of: impl Fn(u32) -> Chunk<'s>,
        workers: u32,
        now: Tick,
        resident: impl Fn(PageId) -> bool,
    ) -> Result<MemberId, Refusal> {
        for number in 0..count {
            check(&chunk_of(number)).map_err(|fault| Refusal::BadChunk { chunk: number as usize, fault })?;
        }
        let (state, config) = (self.state(), self.layout.config);
        let no_space =
            |wanted: usize| Refusal::NoSpace { wanted: wanted as u64, free: state.free_words(), limit: config.words };
        let slot = state.words.get(header::FREE_MEMBER) as u32;
        let member = state.slot(slot).ok_or(Refusal::TooManyScans { limit: config.scans })?;
        let stretch = state.allocate(stretch_words(count)).ok_or_else(|| no_space(stretch_words(count)))?;
        state.words.set(header::FREE_MEMBER, u64::from(member.next_free()));
        member.begin(stretch, count, workers, now);
        let (members, units) = state.counts();
        state.set_counts(members.wrapping_add(1), units);
        for number in 0..count {
            let chunk = chunk_of(number);
            let unit = match state.find_unit(chunk.unit) {
                Some(unit) => Ok(unit),
                None => state.new_unit(chunk.unit),
            };
            let free = config.units.saturating_sub(state.counts().1);
            let too_many = Refusal::TooManyUnits { wanted: count as usize, free, limit: config.units };
            let placed = match unit {
                Ok(unit) => unit.need_of(chunk.need, &resident).map_err(|wanted| {
                    unit.drop_unreferenced();
                    no_space(wanted)
                }),
                Err(wanted) => Err(wanted.map_or(too_many, no_space)),
            };
            match placed {
                Ok((unit, need)) => member.add(number, chunk.joined, unit, need),
                Err(refusal) => {
                    self.end(member);
                    return Err(refusal);
                }
            }
        }
        member.refresh();
        Ok(member.id())
    }

    /// A chunk for a worker of `member`: of those that may be handed out the one that can leave
    /// the pool soonest; see [`Take`]. A member that has ended gets [`Take::End`].
    pub fn take(&mut self, member: MemberId, now: Tick) -> Take {
        let Some(member) = self.state().member(member) else { return Take::End };
        if member.has_ended() {
            return Take::End;
        }
        let Some(chunk) = member
            .chunk_to_use()
            .or_else(|| if self.state().reads_for_itself() { member.chunk_to_read() } else { None })
        else {
            member.wait(now);
            member.refresh();
            return Take::Wait;
        };
        let resident = member.needs(chunk).all(|need| need.missing() == 0);
        let own = [MemberId::NOBODY.raw(), member.id().raw()];
        let shared = resident && member.needs(chunk).any(|need| !own.contains(&need.loader()));
        member.hand_out(chunk);
        member.served(now);
        if mistaken!(LostWakeUp) {
            self.state().waiting().put(member.slot, false);
        }
        if shared {
            member.count_shared();
        }
        member.refresh();
        Take::Chunk { chunk, resident, shared }
    }

    /// From here on a worker of the member is told the end when nothing is left, although chunks
    /// are out: whoever has one keeps it. What is given back is handed out to those who still ask.
    pub fn end_early(&mut self, member: MemberId) {
        if let Some(member) = self.state().member(member) {
            member.flag(ENDS_EARLY, true);
            member.refresh();
        }
    }

    /// No worker of a member waits any more: those who did have gone without a chunk. What they
    /// have waited does not count, and [`wake`](Self::wake) does not name the member.
    pub fn stop_waiting(&mut self, member: MemberId) {
        if let Some(member) = self.state().member(member) {
            member.stop_waiting();
        }
    }

    /// A chunk that was handed out has been read. Each one handed out is told once, here or to
    /// [`give_back`](Self::give_back).
    pub fn consumed(&mut self, member: MemberId, chunk: u32) {
        self.end_chunk(member, chunk, true);
    }

    /// A chunk that was handed out has not been read, or not to its end: it may be handed out
    /// again.
    pub fn give_back(&mut self, member: MemberId, chunk: u32) {
        self.end_chunk(member, chunk, false);
    }

    fn end_chunk(&self, member: MemberId, chunk: u32, consumed: bool) {
        if let Some(member) = self.state().member(member) {
            member.end_chunk(chunk, consumed);
            member.refresh();
        }
    }

    /// A chunk is superfluous: it is not handed out any more. One that is out stays so, and is not
    /// needed again when it is given back.
    pub fn remove(&mut self, member: MemberId, chunk: u32) {
        if let Some(member) = self.state().member(member) {
            member.remove_chunk(chunk);
            member.refresh();
        }
    }

    /// Ends a member, whatever of its chunks is out. A load for it goes on until it has
    /// [`loaded`](Self::loaded).
    pub fn finish(&mut self, member: MemberId) {
        if let Some(member) = self.state().member(member) {
            self.end(member);
        }
    }

    fn end(&self, member: Member<'_>) {
        let state = self.state();
        member.drop_chunks();
        state.release(member.stretch() as usize, stretch_words(member.chunks()));
        let (members, units) = state.counts();
        state.set_counts(members.wrapping_sub(1), units);
        member.end();
        member.set_next_free(state.words.get(header::FREE_MEMBER) as u32);
        state.words.set(header::FREE_MEMBER, u64::from(member.slot));
    }

    /// What the host is to load now; `None` if nothing, or as many loads are under way as may be.
    /// It counts as under way until [`loaded`](Self::loaded).
    pub fn next_load(&mut self, now: Tick) -> Option<Load> {
        self.state().next_load(now)
    }

    /// Ticks after which the host asks for a [`next_load`](Self::next_load) again, if nothing
    /// happens before; `None` if it need not. Loads may be held back for scans that rest.
    pub fn look_again(&self, now: Tick) -> Option<Tick> {
        self.state().look_again(now)
    }

    /// The pages of a load that is under way which are missing now, in the order of blocks.
    pub fn pages(&self, load: &Load, page: impl FnMut(PageId)) {
        self.state().pages(load, page);
    }

    /// Nothing of a load is under way any more: its pages have come, failed or were given up.
    pub fn loaded(&mut self, load: &Load, now: Tick) {
        self.state().loaded(load, now);
    }

    /// A page has come into the pool.
    pub fn arrived(&mut self, page: PageId) {
        self.state().note(page, true);
    }

    /// A page has left the pool.
    pub fn left(&mut self, page: PageId) {
        self.state().note(page, false);
    }

    /// Names the members with a waiting worker that [`take`](Self::take) would not tell to wait
    /// now. They count as woken: the host wakes all workers of the member that wait.
    pub fn wake(&mut self, mut ready: impl FnMut(MemberId)) {
        let state = self.state();
        let both = state.waiting().words().zip(state.servable().words()).map(|(waiting, servable)| waiting & servable);
        for member in numbers(both).filter_map(|slot| state.slot(slot)) {
            state.waiting().put(member.slot, false);
            member.refresh();
            ready(member.id());
        }
    }

    /// The registered scans.
    pub fn members(&self, visit: impl FnMut(MemberView)) {
        let state = self.state();
        let slots = state.registered().iter();
        slots.filter_map(|slot| state.slot(slot)).map(|member| self.view(member)).for_each(visit);
    }

    /// The units that somebody refers to, in no order. O(units · scans).
    pub fn units(&self, mut visit: impl FnMut(UnitView)) {
        let state = self.state();
        for unit in (0..self.layout.config.units).filter_map(|number| state.unit(number)) {
            if unit.references() == 0 {
                continue;
            }
            let wants = |slot: &u32| unit.needs().any(|need| need.members().has(*slot));
            visit(UnitView {
                unit: unit.name(),
                resident: unit.resident().len(),
                wanted: state.registered().iter().filter(wants).count() as u32,
                loading: unit.load() != 0,
            });
        }
    }

    /// Whether a registered scan has still to read `unit`, or a load of it is under way.
    pub fn is_needed(&self, unit: Unit) -> bool {
        self.state().find_unit(unit).is_some()
    }

    /// Whether a chunk of `unit` is out: some scan has been handed it, and has not read it yet.
    pub fn is_out(&self, unit: Unit) -> bool {
        self.state().find_unit(unit).is_some_and(|unit| unit.needs().any(|need| need.is_out()))
    }

    /// A registered scan as it stands now; `None` once it has ended.
    pub fn member(&self, id: MemberId) -> Option<MemberView> {
        self.state().member(id).map(|member| self.view(member))
    }

    fn view(&self, member: Member<'_>) -> MemberView {
        let state = self.state();
        MemberView {
            id: member.id(),
            workers: member.workers(),
            chunks: member.chunks(),
            left: member.left(),
            out: member.out(),
            available: member.available(),
            waiting: state.waiting().has(member.slot),
            starved: state.starved().has(member.slot),
            shared: member.shared(),
        }
    }

    /// How much of the memory is in use.
    pub fn usage(&self) -> Usage {
        let state = self.state();
        let (scans, units) = state.counts();
        let words = u64::from(self.layout.config.words).saturating_sub(state.free_words());
        Usage { scans, units, words, loads: state.loads(), refused: state.words.get(header::REFUSED) }
    }
}

/// Whether a chunk makes sense.
fn check(chunk: &Chunk<'_>) -> Result<(), ChunkFault> {
    let (first, blocks) = (chunk.unit.first, chunk.unit.blocks);
    if u64::from(first) + u64::from(blocks) > 1 << 32 {
        return Err(ChunkFault::PastLastBlock);
    }
    let past =
        chunk.need.iter().enumerate().any(|(index, &word)| match u64::from(blocks).checked_sub(64 * index as u64) {
            None | Some(0) => word != 0,
            Some(rest) => rest < 64 && word >> rest != 0,
        });
    if past { Err(ChunkFault::PastUnit) } else { Ok(()) }
}
