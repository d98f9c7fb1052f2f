// See ScoregateCalls.h. Copyright 2026 the Scoregate authors. Licensed under the Apache License, Version 2.0.
#include "ScoregateCalls.h"

#include "Misc/DateTime.h"
#include "Misc/Guid.h"

namespace
{
	// Version 4 GUIDs come from the platform's source of secure randomness; four bytes of one are fixed in part.
	int RandomBytes(void*, void* To, size_t Size)
	{
		uint8* Bytes = static_cast<uint8*>(To);
		for (size_t At = 0; At < Size; At++)
		{
			Bytes[At] = static_cast<uint8>(FGuid::NewGuid().D & 255);
		}
		return 1;
	}

	int64_t NowMs(void*)
	{
		return static_cast<int64_t>((FDateTime::UtcNow() - FDateTime(1970, 1, 1)).GetTotalMilliseconds());
	}
}

sg_platform FScoregateCalls::Platform()
{
	sg_platform Made = {};
	Made.random_bytes = RandomBytes;
	Made.now_ms = NowMs;
	return Made;
}

FScoregateCalls::FScoregateCalls(size_t Room)
{
	Memory.SetNumUninitialized(static_cast<int32>(Room));
	sg_call_begin(&Call, Memory.GetData(), Room);
}

void FScoregateCalls::Perform(TFunction<void(sg_call&)> OnDone)
{
	Done = MoveTemp(OnDone);
	Step();
}

void FScoregateCalls::Step()
{
	switch (sg_step(&Call))
	{
	case SG_SEND:
		Send();
		return;
	case SG_WAIT:
		FTSTicker::GetCoreTicker().AddTicker(FTickerDelegate::CreateLambda([this](float) { Step(); return false; }),
			Call.wait_ms / 1000.0f);
		return;
	default:
		Done(Call);
	}
}

void FScoregateCalls::Send()
{
	TSharedRef<IHttpRequest, ESPMode::ThreadSafe> Request = FHttpModule::Get().CreateRequest();
	Request->SetVerb(UTF8_TO_TCHAR(Call.method));
	Request->SetURL(UTF8_TO_TCHAR(Call.url));
	Request->SetTimeout(Call.timeout_ms / 1000.0f);
	for (size_t At = 0; At < Call.header_count; At++)
	{
		Request->SetHeader(UTF8_TO_TCHAR(Call.headers[At].name), UTF8_TO_TCHAR(Call.headers[At].value));
	}
	if (Call.body)
	{
		Request->SetContent(TArray<uint8>(static_cast<const uint8*>(Call.body), static_cast<int32>(Call.body_size)));
	}
	Request->OnProcessRequestComplete().BindLambda(
		[this](FHttpRequestPtr, FHttpResponsePtr Response, bool bHasAnswer) { Receive(Response, bHasAnswer); });
	Request->ProcessRequest();
}

void FScoregateCalls::Receive(FHttpResponsePtr Response, bool bHasAnswer)
{
	if (bHasAnswer && Response.IsValid())
	{
		sg_received_status(&Call, Response->GetResponseCode());
		for (const TCHAR* Name : {TEXT("Content-Type"), TEXT("Retry-After")})
		{
			sg_received_field(&Call, TCHAR_TO_UTF8(Name), TCHAR_TO_UTF8(*Response->GetHeader(Name)));
		}
		sg_received_body(&Call, Response->GetContent().GetData(), static_cast<size_t>(Response->GetContent().Num()));
		sg_received_end(&Call);
	}
	else
	{
		sg_received_nothing(&Call, 1, "the request failed");
	}
	Step();
}
