//! What BP-Wrapper's authors ran, as lists of pages: transactions of a bookshop (DBT-1, after
//! TPC-W), of a warehouse (DBT-2, after TPC-C), and scans of a whole table.
//!
//! Imitations: the shares of the transactions and the skews are those of the specifications, the
//! tables are smaller, and what a transaction touches is its index pages and its rows' pages.

use pagecast_core::random::Random;
use pagecast_sim::generate::Zipf;

/// Pages of all tables and indexes together.
pub(crate) const PAGES: u32 = 8_192;

#[derive(Clone, Copy)]
pub(crate) enum Load {
    Bookshop,
    Warehouse,
    TableScan,
}

impl Load {
    pub(crate) const ALL: [Self; 3] = [Self::Bookshop, Self::Warehouse, Self::TableScan];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bookshop => "dbt1-like",
            Self::Warehouse => "dbt2-like",
            Self::TableScan => "tablescan",
        }
    }

    /// The pages that each of `threads` threads asks for, `each` of them.
    pub(crate) fn pages(self, threads: u32, each: usize) -> Vec<Vec<u32>> {
        let popular = Zipf::new(ITEMS.pages, 0.8);
        let thread = |number: u32| {
            let mut run = Run { random: Random::new(u64::from(number) + 1), popular: &popular, pages: Vec::new() };
            while run.pages.len() < each {
                match self {
                    Self::Bookshop => run.visit(),
                    Self::Warehouse => run.transaction(number),
                    Self::TableScan => run.pages.extend(0..PAGES),
                }
            }
            run.pages.truncate(each);
            run.pages
        };
        (0..threads).map(thread).collect()
    }
}

/// A table: so many pages from this one on.
struct Table {
    first: u32,
    pages: u32,
}

impl Table {
    const fn after(before: &Self, pages: u32) -> Self {
        Self { first: before.first + before.pages, pages }
    }

    fn page(&self, at: u32) -> u32 {
        self.first + at % self.pages
    }
}

/// An index has a root, 8 pages below it, and 8 leaves below each of these.
const INDEX: u32 = 1 + 8 + 64;
const ITEM_INDEX: Table = Table { first: 0, pages: INDEX };
const CUSTOMER_INDEX: Table = Table::after(&ITEM_INDEX, INDEX);
const ITEMS: Table = Table::after(&CUSTOMER_INDEX, 1_000);
const AUTHORS: Table = Table::after(&ITEMS, 250);
const CUSTOMERS: Table = Table::after(&AUTHORS, 2_000);
/// Of DBT-2: a page for each warehouse and its districts.
const WAREHOUSES: Table = Table::after(&CUSTOMERS, 16);
const STOCK: Table = Table::after(&WAREHOUSES, 2_000);
const ORDERS: Table = Table::after(&STOCK, PAGES - STOCK.first - STOCK.pages);

/// A thread's requests so far.
struct Run<'a> {
    random: Random,
    popular: &'a Zipf,
    pages: Vec<u32>,
}

impl Run<'_> {
    /// What a visitor of the bookshop asks for.
    fn visit(&mut self) {
        match self.random.below(100) {
            0..45 => {
                let item = self.item();
                self.pages.push(AUTHORS.page(item / 4));
            }
            // A search: a few leaves along, and what they name.
            45..82 => {
                let leaf = self.random.below(64);
                self.look_up(&ITEM_INDEX, leaf);
                self.pages.extend((1..5).map(|more| ITEM_INDEX.page(9 + (leaf + more) % 64)));
                (0..10).for_each(|_| self.popular_item());
            }
            // What sells best: the last orders, and some of their items.
            82..92 => {
                self.pages.extend((ORDERS.pages - 20..ORDERS.pages).map(|at| ORDERS.page(at)));
                (0..5).for_each(|_| self.popular_item());
            }
            _ => {
                self.customer();
                self.last_order();
            }
        }
    }

    /// A transaction of the warehouse at whose terminals the thread sits.
    fn transaction(&mut self, thread: u32) {
        self.pages.push(WAREHOUSES.page(thread));
        match self.random.below(100) {
            // A new order of ten items.
            0..45 => {
                self.customer();
                for _ in 0..10 {
                    let item = self.uneven(1_023, ITEMS.pages);
                    self.look_up(&ITEM_INDEX, item / 16);
                    self.pages.extend([ITEMS.page(item), STOCK.page(2 * item)]);
                }
                self.last_order();
            }
            // A payment, or the status of an order.
            45..92 => {
                self.customer();
                self.last_order();
            }
            // Deliveries of the oldest orders of ten districts.
            92..96 => self.pages.extend((0..10).map(|district| ORDERS.page(ORDERS.pages / 2 + district))),
            // The stock of what was ordered last.
            _ => {
                self.last_order();
                for _ in 0..20 {
                    let at = self.random.below(STOCK.pages);
                    self.pages.push(STOCK.page(at));
                }
            }
        }
    }

    fn look_up(&mut self, index: &Table, leaf: u32) {
        self.pages.extend([index.page(0), index.page(1 + leaf % 64 / 8), index.page(9 + leaf % 64)]);
    }

    fn item(&mut self) -> u32 {
        let item = self.popular.draw(&mut self.random);
        self.look_up(&ITEM_INDEX, item / 16);
        self.pages.push(ITEMS.page(item));
        item
    }

    fn popular_item(&mut self) {
        self.pages.push(ITEMS.page(self.popular.draw(&mut self.random)));
    }

    fn customer(&mut self) {
        let customer = self.uneven(1_023, CUSTOMERS.pages);
        self.look_up(&CUSTOMER_INDEX, customer / 32);
        self.pages.push(CUSTOMERS.page(customer));
    }

    fn last_order(&mut self) {
        self.pages.extend([ORDERS.page(ORDERS.pages - 2), ORDERS.page(ORDERS.pages - 1)]);
    }

    /// TPC-C's uneven numbers below `bound` (clause 2.1.6).
    fn uneven(&mut self, bits: u32, bound: u32) -> u32 {
        (self.random.below(bits + 1) | self.random.below(bound)) % bound
    }
}
