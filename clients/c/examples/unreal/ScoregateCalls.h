// Calls of scoregate.h over Unreal's HTTP module, without blocking the game thread.
// Copyright 2026 the Scoregate authors. Licensed under the Apache License, Version 2.0.
#pragma once

#include "Containers/Ticker.h"
#include "CoreMinimal.h"
#include "HttpModule.h"
#include "Interfaces/IHttpRequest.h"
#include "Interfaces/IHttpResponse.h"

#include "scoregate.h"

// Performs one call after another. Use it from the game thread, and keep it alive until OnDone was called.
class FScoregateCalls
{
public:
	explicit FScoregateCalls(size_t Room = SG_CALL_ROOM);

	// Begins to perform a call that was just begun: `sg_open_run(&Calls.Call, ...)`, then `Calls.Perform(...)`.
	void Perform(TFunction<void(sg_call&)> OnDone);

	sg_call Call;

	// What a client needs of the machine: pass it to sg_client_begin.
	static sg_platform Platform();

private:
	void Step();
	void Send();
	void Receive(FHttpResponsePtr Response, bool bHasAnswer);

	TArray<char> Memory;
	TFunction<void(sg_call&)> Done;
};
