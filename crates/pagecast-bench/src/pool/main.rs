mod eviction; mod rounds;
fn main(){ for s in [1,8,32,128]{ let f=eviction::measure(s,11); println!("{s} {} {} {}", f.ours,f.other,f.ratio);} }
