// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.30;

/// Makes calls one after the other and returns what each of them answered. A call that fails does
/// not end the others, so its failure is data and not an error of the node. It is never deployed: a
/// node runs it once, in eth_call, in place of the treasury's code.
contract Probe {
    struct Call {
        address to;
        uint256 value; // in wei
        bytes data;
    }

    struct Result {
        bool ok;
        bytes data;
    }

    function run(Call[] calldata calls) external returns (Result[] memory results) {
        results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            (results[i].ok, results[i].data) = calls[i].to.call{value: calls[i].value}(calls[i].data);
        }
    }
}
