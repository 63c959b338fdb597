// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.30;

import {USDC} from "./USDC.sol";

/// Fills blocks with transfers of nothing out of an account that did not ask for them. It is also a
/// token that writes logs of transfers that were none.
contract Poisoner {
    event Transfer(address indexed from, address indexed to, uint256 value);

    function pretend(address from, address to, uint256 value) external {
        emit Transfer(from, to, value);
    }

    /// Writes n logs of transfers from the account: to the destination or, when that is zero, to a new
    /// address each.
    function poison(address token, address from, address to, uint256 n) external {
        for (uint160 i = 1; i <= n; i++) {
            address x = to == address(0) ? address(i << 32) : to;
            (bool done,) = token.call(abi.encodeCall(USDC.transferFrom, (from, x, 0)));
            require(done);
        }
    }
}
