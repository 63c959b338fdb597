module example.com/checkout/deploy/release/examples/go

go 1.26.0

require example.com/checkout/api/sdk v0.0.0

replace example.com/checkout/api/sdk => ../../../../api/sdk
