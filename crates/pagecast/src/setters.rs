//! The methods by which options are set, one for each field.

/// Inside of the `impl` of a struct: a setter for each of these fields, with what it takes. That is
/// the field's type, what an optional field holds, or `impl Into` of the field's type.
///
/// Hidden, as it is no part of a pool; hosts have options, too.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($field:ident: $given:ty,)*) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: $given) -> Self {
            self.$field = $field.into();
            self
        }
    )*};
}
