module example.com/checkout/api/sdk

go 1.26.0
